package dibsdrivertest

import (
	"database/sql"
	"errors"

	"github.com/dibs-go/dibs"
)

// endedInside: a work that ends its transaction itself is not told that nothing was committed, and neither is what it did then taken for fenced, nor the lock released.
func endedInside(e *env) {
	b := newFenceBed(e, dibs.Config{})
	b.take(b.locker, "aside") // from now on the driver has what it keeps
	before := b.DB.Stats().InUse
	n := int64(0)
	for what, c := range map[string]struct {
		end     func(tx *sql.Tx) error
		commits int64
	}{
		"Commit":   {func(tx *sql.Tx) error { return tx.Commit() }, 1},
		"Rollback": {func(tx *sql.Tx) error { return tx.Rollback() }, 0},
		"COMMIT":   {func(tx *sql.Tx) error { _, err := tx.Exec("COMMIT"); return err }, 1},
		"ROLLBACK": {func(tx *sql.Tx) error { _, err := tx.Exec("ROLLBACK"); return err }, 0},
	} {
		for name, in := range b.both() {
			lock, _ := b.take(b.locker, "k")
			err := in(b.within(), b.DB, lock, func(tx *sql.Tx) error { return errors.Join(b.add(tx), c.end(tx)) })
			b.says(name+", "+what, err, dibs.ErrOutcomeUnknown)
			n += c.commits
			b.worked(n)
			b.ok(lock.Verify(b.within()), name+", "+what+": the lock")
			b.ok(lock.Release(), name+", "+what+": release")
		}
	}
	b.back(before)
}
