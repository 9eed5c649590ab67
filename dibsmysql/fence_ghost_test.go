package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
)

// TestFact30_AbandonedFence: a transaction whose context ends while it is being fenced, as a stranger has locked the lease's row, does not go on waiting in the
// server, where it would keep what it has locked itself.
func TestFact30_AbandonedFence(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		b.work(t)
		db := b.pool(t, "")
		lock, _ := hold(t, b.locker(t, "", nil), "k")
		for name, fences := range map[string]func(ctx context.Context) error{
			"InTx": func(ctx context.Context) error {
				return InTx(ctx, db, lock, func(tx *sql.Tx) error { _, err := tx.Exec(add); return err })
			},
			"InTxAndRelease": func(ctx context.Context) error {
				return InTxAndRelease(ctx, db, lock, func(tx *sql.Tx) error { _, err := tx.Exec(add); return err })
			},
			"Fence": func(ctx context.Context) error {
				tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
				if err != nil {
					return err
				}
				defer tx.Rollback()
				if _, err := tx.Exec(add); err != nil {
					return err
				}
				return Fence(ctx, tx, lock)
			},
		} {
			unlock := b.lockRow(t, "k")
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			err := fences(ctx)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, dibs.ErrUnavailable) {
				t.Errorf("%s: %v", name, err)
			}
			ended := time.Now()
			eventually(t, name+": its statement has ended", func() bool {
				return b.number(t, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = ? AND info LIKE '%FOR UPDATE%' AND info NOT LIKE '%processlist%'", b.database) == 0
			})
			if took := time.Since(ended); took > 5*time.Second { // a second, and what a busy machine adds; by itself it would be 50
				t.Errorf("%s: its statement ended after %s", name, took)
			}
			free, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if _, err := b.admin.ExecContext(free, "UPDATE work SET token = token + 1 WHERE id = 1"); err != nil {
				t.Errorf("%s: what it had locked stays locked: %v", name, err)
			}
			cancel()
			unlock()
			b.worked(t, 0)
		}
		if err := lock.Verify(within(t)); err != nil {
			t.Error(err)
		}
	})
}
