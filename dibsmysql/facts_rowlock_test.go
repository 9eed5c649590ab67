package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
)

// TestFact1_MissingRow: with an empty table nobody enters, and no gap is locked; and with the rows there, neighbours are inserted at once while one is held.
func TestFact1_MissingRow(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		r := b.rows(t, "")
		b.must(t, b.admin, "DELETE FROM dibs_rows")
		quick := func(what string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			for _, s := range []string{
				"INSERT INTO dibs_rows (id, name) VALUES (1, 'x1'), (2, 'x2'), (50, 'x50')", "DELETE FROM dibs_rows WHERE id = 1",
				"DELETE FROM dibs_rows WHERE id = 2", "DELETE FROM dibs_rows WHERE id = 50",
			} {
				if _, err := b.admin.ExecContext(ctx, s); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
		r.ids["a"] = 1 // as it was known before somebody deleted it
		for range 2 {
			err := r.Do(within(t), "a", func(context.Context, *sql.Tx) error { t.Error("entered"); return nil })
			if !errors.Is(err, ErrNotRegistered) {
				t.Error(err)
			}
			quick("after asking for a row that is not there")
		}
		// 1b: an existing row locks no neighbour.
		b.must(t, b.admin, "INSERT INTO dibs_rows (id, name) VALUES (10, 'm')")
		free := holding(t, r, "m")
		quick("beside a row that is held")
		if err := free(); err != nil {
			t.Error(err)
		}
	})
}

// TestFact1b_WorkLocksNoGap: in the work, an UPDATE that finds nothing locks no gap either, though the session is at REPEATABLE READ.
func TestFact1b_WorkLocksNoGap(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		r := b.rows(t, "")
		err := r.Do(within(t), "a", func(ctx context.Context, tx *sql.Tx) error {
			if err := set(99, 1)(ctx, tx); err != nil {
				return err
			}
			quick, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			_, err := b.admin.ExecContext(quick, "INSERT INTO stock VALUES (100, 1)")
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestFact2_NoDeadlockAtRelease: 20 who wait while the holder rolls back, or commits: each gets the row in its turn, nobody an error.
func TestFact2_NoDeadlockAtRelease(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		var wg sync.WaitGroup
		r := b.rows(t, "")
		for round := range 2 {
			unlock := b.lockedElsewhere(t, "a")
			for i := range 20 {
				wg.Go(func() {
					own := r
					if i%4 == 0 {
						own = b.rows(t, "")
					}
					if err := own.Do(within(t), "a", func(ctx context.Context, tx *sql.Tx) error {
						_, err := tx.ExecContext(ctx, "UPDATE stock SET n = n + 1 WHERE id = 1")
						if err == nil && i%2 == 0 {
							return errTest
						}
						return err
					}); err != nil && !errors.Is(err, errTest) {
						t.Errorf("round %d: %v", round, err)
					}
				})
			}
			eventually(t, "all processes wait", func() bool { return b.threads(t) >= 6 })
			unlock()
			wg.Wait()
		}
		if n := b.stock(t, 1); n != 120 {
			t.Errorf("%d", n)
		}
	})
}

// deadlock makes the work's transaction the victim of a deadlock, and returns the error.
func (b *bed) deadlock(t *testing.T, ctx context.Context, tx *sql.Tx) error {
	other, err := b.admin.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback() }()
	b.must(t, other, "INSERT INTO stock VALUES (11, 0), (12, 0), (13, 0), (14, 0), (15, 0), (16, 0), (17, 0)") // it is the heavier one
	b.must(t, other, "UPDATE stock SET n = 0 WHERE id = 3")
	if err := set(2, 55)(ctx, tx); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { _, _ = other.Exec("UPDATE stock SET n = 0 WHERE id = 2") })
	eventually(t, "the other waits", func() bool {
		return b.number(t, "SELECT COUNT(*) FROM information_schema.processlist WHERE info = 'UPDATE stock SET n = 0 WHERE id = 2' AND db = ?", b.database) == 1
	})
	return set(3, 55)(ctx, tx)
}

// TestFact3_DeadlockInTheWork: a deadlock has rolled everything back. Told, Do says so; ignored, what the work does after it is not committed either.
func TestFact3_DeadlockInTheWork(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		db := b.pool(t, "")
		r := b.rowsOn(t, db, nil)
		runs := 0
		for _, ignored := range []bool{false, true} {
			err := r.Do(within(t), "a", func(ctx context.Context, tx *sql.Tx) error {
				runs++
				if err := set(1, 44)(ctx, tx); err != nil {
					return err
				}
				err := b.deadlock(t, ctx, tx)
				if code(err) != 1213 {
					t.Errorf("no deadlock: %v", err)
				}
				if after := set(1, 66)(ctx, tx); after != nil { // as autocommit would have it, this is committed at once
					t.Error(after)
				}
				if ignored {
					return nil
				}
				return err
			})
			switch {
			case !ignored && (code(err) != 1213 || errors.Is(err, dibs.ErrOutcomeUnknown)):
				t.Errorf("told: %v", err)
			case ignored && (!errors.Is(err, dibs.ErrOutcomeUnknown) || !errors.Is(err, dibs.ErrLost)):
				t.Errorf("ignored: %v", err)
			}
			if n, m := b.stock(t, 1), b.stock(t, 2); n != 100 || m != 100 {
				t.Errorf("ignored %v: %d and %d are in the table", ignored, n, m)
			}
			b.nothingLeft(t, db)
		}
		if runs != 2 {
			t.Errorf("the work ran %d times", runs)
		}
	})
}

// TestFact4_TimeoutInTheWork: error 1205 undoes its statement alone; Do rolls the rest back, and frees all locks, if the work returns it.
func TestFact4_TimeoutInTheWork(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) { b.timeoutInTheWork(t, false) })
}

func (b *bed) timeoutInTheWork(t *testing.T, all bool) {
	db := b.pool(t, "innodb_lock_wait_timeout=1")
	r := b.rowsOn(t, db, nil)
	tx, err := b.admin.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	b.must(t, tx, "UPDATE stock SET n = 0 WHERE id = 3")
	for _, ignored := range []bool{false, true} {
		err := r.Do(within(t), "a", func(ctx context.Context, tx *sql.Tx) error {
			if err := set(1, 44)(ctx, tx); err != nil {
				return err
			}
			err := set(3, 44)(ctx, tx)
			if code(err) != 1205 {
				t.Errorf("not a time-out: %v", err)
			}
			if ignored {
				return nil
			}
			return err
		})
		want := int64(100)
		switch {
		case !ignored && (code(err) != 1205 || errors.Is(err, dibs.ErrOutcomeUnknown)):
			t.Errorf("told: %v", err)
		case ignored && all && (!errors.Is(err, dibs.ErrOutcomeUnknown) || !errors.Is(err, dibs.ErrLost)):
			t.Errorf("ignored, and everything rolled back: %v", err)
		case ignored && !all:
			want = 44 // the transaction stands, without that statement
			if err != nil {
				t.Errorf("ignored: %v", err)
			}
		}
		if n := b.stock(t, 1); n != want {
			t.Errorf("ignored %v: %d is in the table, want %d", ignored, n, want)
		}
		b.nothingLeft(t, db)
	}
}

// TestFact5_RollbackOnTimeout: with innodb_rollback_on_timeout a time-out ends the whole transaction: in the work, and also while waiting for the row, after
// which a locking read would lock nothing.
func TestFact5_RollbackOnTimeout(t *testing.T) {
	t.Parallel()
	onBothAlone(t, []string{"--innodb-rollback-on-timeout=ON"}, func(t *testing.T, b *bed) {
		b.timeoutInTheWork(t, true)
		r := b.rows(t, "innodb_lock_wait_timeout=1")
		unlock := b.lockedElsewhere(t, "a")
		entered, done := make(chan struct{}), make(chan error, 1)
		go func() {
			done <- r.Do(within(t), "a", func(context.Context, *sql.Tx) error {
				close(entered)
				if !b.isLocked(t, "a") {
					t.Error("the row is not locked")
				}
				return nil
			})
		}()
		select {
		case <-entered:
			t.Error("entered a row that is locked")
		case <-time.After(2500 * time.Millisecond): // two time-outs
		}
		unlock()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
