package dibssqlite

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
)

// TestS7_InTx: the write lock is there from the start, and waited for as long as the context says.
func TestS7_InTx(t *testing.T) {
	t.Parallel()
	fencedWays(t, nil, func(t *testing.T, b *bench) {
		lock, ctx := hold(t, b.locker, "k")
		err := InTx(ctx, b.db, lock, func(tx *sql.Tx) error {
			look := raw(t, b.path+"?_busy_timeout=0")
			if _, err := look.Exec("BEGIN IMMEDIATE"); !busy(err) {
				t.Errorf("somebody else has the write lock: %v", err)
			}
			return adds(tx)
		})
		if err != nil {
			t.Fatal(err)
		}
		b.worked(t, 1)
		writer := begin(t, b.look, add)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		is(t, "locked", InTx(ctx, b.db, lock, adds), context.DeadlineExceeded, dibs.ErrUnavailable)
		if err := writer.Rollback(); err != nil {
			t.Error(err)
		}
		b.worked(t, 1)
		if err := lock.Err(); err != nil {
			t.Error(err)
		}
	})
}

// TestInTxSectionOver: a section that ends while fn runs ends its transaction.
func TestInTxSectionOver(t *testing.T) {
	t.Parallel()
	b := newBench(t, "New")
	l := locker(t, b.driver, &dibs.Config{RequestTimeout: 2 * time.Second, TTL: 10 * time.Second})
	lock, _ := hold(t, l, "k")
	err := InTx(within(t), b.db, lock, func(tx *sql.Tx) error {
		// The file is ours, so that the release cannot be confirmed.
		is(t, "release", lock.Release(), dibs.ErrUnavailable)
		return adds(tx)
	})
	is(t, "released under fn", err, dibs.ErrReleased)
	b.worked(t, 0)
	lock, _ = hold(t, l, "k") // it was released in the background
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

// TestGuard: it works within a transaction as well.
func TestGuard(t *testing.T) {
	t.Parallel()
	b := newBench(t, "Open")
	defer b.driver.Close()
	g := Guard{Table: "work", Where: "id = 1 OR id = 3"}
	if err := g.Update(t.Context(), b.db, 6000, "n = 2"); err != nil {
		t.Fatal(err)
	}
	tx := begin(t, b.db)
	if err := g.Update(t.Context(), tx, 5999, "n = 9"); !errors.Is(err, dibs.ErrLost) {
		t.Error(err)
	}
	if err := g.Update(t.Context(), tx, 6001, "n = 9"); err != nil {
		t.Error(err)
	}
	_ = tx.Rollback()
	b.worked(t, 2)
}

// TestS7_EndedInside: a transaction that the work ended, or had ended, is not taken for one that is fenced, and the lock is not released with it.
func TestS7_EndedInside(t *testing.T) {
	for name, statements := range map[string][]string{
		"on conflict rollback": {"INSERT INTO seen VALUES (1)", "INSERT INTO work VALUES (7, 1)"},
		"commit":               {"COMMIT", "INSERT INTO work VALUES (7, 1)"},
		"rollback":             {"ROLLBACK"},
		"another":              {"COMMIT", "BEGIN"},
	} {
		fencedWays(t, nil, func(t *testing.T, b *bench) {
			for _, s := range []string{"CREATE TABLE seen (id INTEGER PRIMARY KEY ON CONFLICT ROLLBACK)", "INSERT INTO seen VALUES (1)"} {
				mustExec(t, b.db, s)
			}
			lock, ctx := hold(t, b.locker, "k")
			err := InTxAndRelease(ctx, b.db, lock, func(tx *sql.Tx) error {
				for _, s := range statements {
					_, _ = tx.Exec(s)
				}
				return nil
			})
			if !errors.Is(err, dibs.ErrOutcomeUnknown) {
				t.Errorf("%s: want ErrOutcomeUnknown, got %v", name, err)
			}
			if err := lock.Verify(within(t)); err != nil {
				t.Errorf("%s: the lock: %v", name, err)
			}
			if err := lock.Release(); err != nil {
				t.Errorf("%s: release: %v", name, err)
			}
		})
	}
}
