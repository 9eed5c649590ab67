package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
)

// TestRowsCancelledInAStatement: the context ends while a statement of the work is under way: the client library closes the connection, and Do has the server
// end the session, so that the row is free at once, and not when that statement is done.
func TestRowsCancelledInAStatement(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		db := b.pool(t, "")
		r := b.rowsOn(t, db, nil)
		ctx, cancel := context.WithCancel(within(t))
		err := r.Do(ctx, "a", func(ctx context.Context, tx *sql.Tx) error {
			if err := set(1, 5)(ctx, tx); err != nil {
				return err
			}
			time.AfterFunc(100*time.Millisecond, cancel)
			_, err := tx.ExecContext(ctx, "DO SLEEP(60)")
			return err
		})
		returned := time.Now()
		if !errors.Is(err, context.Canceled) || errors.Is(err, dibs.ErrOutcomeUnknown) {
			t.Error(err)
		}
		eventually(t, "the row is free", func() bool { return !b.isLocked(t, "a") })
		if took := time.Since(returned); took > time.Second {
			t.Errorf("it took %s", took)
		}
		b.nothingLeft(t, db)
		if n := b.stock(t, 1); n != 100 {
			t.Errorf("%d", n)
		}
	})
}

// TestRowsOpenRows: a work that leaves a result set open gets an error that says so, and nothing is committed.
func TestRowsOpenRows(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		db := b.pool(t, "")
		r := b.rowsOn(t, db, nil)
		var left *sql.Rows
		err := r.Do(within(t), "a", func(ctx context.Context, tx *sql.Tx) (err error) {
			if err := set(1, 5)(ctx, tx); err != nil {
				return err
			}
			left, err = tx.QueryContext(ctx, "SELECT * FROM stock")
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "*sql.Rows") || b.stock(t, 1) != 100 {
			t.Error(err)
		}
		_ = left.Close()
		b.nothingLeft(t, db)
	})
}

// TestRowsGoexit: a work that ends its goroutine (t.FailNow does) frees the row.
func TestRowsGoexit(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		db := b.pool(t, "")
		r := b.rowsOn(t, db, nil)
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = r.Do(within(t), "a", func(ctx context.Context, tx *sql.Tx) error {
				_ = set(1, 5)(ctx, tx)
				runtime.Goexit()
				return nil
			})
		})
		wg.Wait()
		b.nothingLeft(t, db)
		if n := b.stock(t, 1); n != 100 {
			t.Errorf("%d", n)
		}
	})
}

// TestRowsReadOnly: a server that takes no writes says so, to new ones and at the first statement, and by the same pool work goes on when it does again.
func TestRowsReadOnly(t *testing.T) {
	t.Parallel()
	onBothAlone(t, nil, func(t *testing.T, b *bed) {
		db := b.pool(t, "")
		r := b.rowsOn(t, db, nil)
		b.must(t, b.admin, "SET GLOBAL read_only = ON")
		_, create := NewRows(within(t), db, nil)
		_, try := r.TryDo(within(t), "a", set(1, 1))
		for what, err := range map[string]error{
			"new": create, "try": try, "do": r.Do(within(t), "a", set(1, 1)), "register": r.Register(within(t), "x"),
		} {
			if !errors.Is(err, dibs.ErrReadOnly) || !errors.Is(err, dibs.ErrUnavailable) {
				t.Errorf("%s: %v", what, err)
			}
		}
		b.must(t, b.admin, "SET GLOBAL read_only = OFF")
		err := r.Do(within(t), "a", func(ctx context.Context, tx *sql.Tx) error {
			if err := set(1, 5)(ctx, tx); err != nil {
				return err
			}
			var wg sync.WaitGroup
			defer wg.Wait()
			b.must(t, b.admin, "SET GLOBAL innodb_lock_wait_timeout = 50") // a statement that does no harm, on the way
			wg.Go(func() { b.must(t, b.admin, "SET GLOBAL read_only = ON") })
			eventually(t, "the server takes no writes", func() bool { return b.number(t, "SELECT @@read_only") == 1 })
			return nil
		})
		if n := b.stock(t, 1); err == nil && n != 5 || err != nil && (n != 100 || !errors.Is(err, dibs.ErrReadOnly)) {
			t.Errorf("%v, and %d in the table", err, n)
		}
		b.must(t, b.admin, "SET GLOBAL read_only = OFF")
		b.nothingLeft(t, db)
	})
}

// TestRowsLeaveNothing: goroutines and sessions are back where they were.
func TestRowsLeaveNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		r := b.rows(t, "") // what is made once is made by now
		if err := r.Do(within(t), "a", set(1, 1)); err != nil {
			t.Fatal(err)
		}
		unlock := b.lockedElsewhere(t, "a")
		before := runtime.NumGoroutine()
		db := b.pool(t, "")
		r = b.rowsOn(t, db, nil)
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				_ = r.Do(within(t), "a", set(1, 1), MaxWait(time.Duration(i)*10*time.Millisecond))
				_ = r.Do(within(t), "b", func(ctx context.Context, tx *sql.Tx) error {
					time.Sleep(time.Duration(i) * time.Millisecond)
					return nil
				})
			})
		}
		free := holding(t, r, "c")
		time.Sleep(2 * rowWatchEvery) // so that the watch is there
		if err := free(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		unlock()
		b.nothingLeft(t, db)
		db.Close()
		eventually(t, "goroutines are back", func() bool { return runtime.NumGoroutine() <= before })
		r.mu.Lock()
		defer r.mu.Unlock()
		r.watch.mu.Lock()
		defer r.watch.mu.Unlock()
		if len(r.lines)+len(r.slots)+r.watch.users+len(r.watch.holds) != 0 {
			t.Errorf("left: %v, %d, %d, %v", r.lines, len(r.slots), r.watch.users, r.watch.holds)
		}
	})
}

// TestRowsWatchEnds: the last of a line leaves while the one before it, which has waited in the server, is at work. Nothing is kept for the line after that.
func TestRowsWatchEnds(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		db := b.pool(t, "")
		r := b.rowsOn(t, db, nil)
		free := holding(t, b.rows(t, ""), "a")
		last := make(chan error, 1)
		first := make(chan error, 1)
		go func() {
			first <- r.Do(within(t), "a", func(context.Context, *sql.Tx) error {
				if err := <-last; !errors.Is(err, dibs.ErrBusy) {
					t.Errorf("the last of the line: %v", err)
				}
				return nil
			})
		}()
		eventually(t, "it waits in the server", func() bool { return b.threads(t) == 1 })
		go func() {
			last <- r.Do(within(t), "a", func(context.Context, *sql.Tx) error { return nil }, MaxWait(time.Second))
		}()
		eventually(t, "the last has joined", func() bool {
			r.mu.Lock()
			l := r.lines["a"]
			r.mu.Unlock()
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.waiting) == 2
		})
		if err := free(); err != nil {
			t.Error(err)
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
		eventually(t, "no connection is held", func() bool { return db.Stats().InUse == 0 })
	})
}
