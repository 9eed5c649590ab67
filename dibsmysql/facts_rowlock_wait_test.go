package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// TestFact6_B15_WaitLimit: a wait ends when it is to, not at whole seconds, whether by MaxWait or by the context; within a second nothing of it is
// left in the server; and the row is then free for the next.
func TestFact6_B15_WaitLimit(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		db := b.pool(t, "")
		r := b.rowsOn(t, db, nil)
		unlock := b.lockedElsewhere(t, "a")
		never := func(context.Context, *sql.Tx) error { t.Error("entered"); return nil }
		for _, wait := range []time.Duration{200 * time.Millisecond, 700 * time.Millisecond} {
			for tries := 0; tries < 10; tries++ {
				byContext := tries%2 == 1
				ctx, cancel, opt := t.Context(), context.CancelFunc(func() {}), MaxWait(wait)
				if byContext {
					ctx, cancel = context.WithTimeout(ctx, wait)
					opt = func(*rowOptions) {}
				}
				began := time.Now()
				err := r.Do(ctx, "a", never, opt)
				took := time.Since(began)
				cancel()
				busy, is := errors.AsType[*dibs.BusyError](err)
				if took > wait+100*time.Millisecond && tries < 8 {
					continue // the machine is busy with something else
				}
				if !errors.Is(err, dibs.ErrBusy) || !is || busy.Key != "a" || byContext != errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("wait %s, by context %v: %v", wait, byContext, err)
				}
				if took < wait || took > wait+100*time.Millisecond {
					t.Errorf("wait %s, by context %v: it took %s", wait, byContext, took)
				}
				if byContext {
					break
				}
			}
		}
		ended := time.Now()
		eventually(t, "nothing of it is left in the server", func() bool { return b.threads(t) == 0 })
		if took := time.Since(ended); took > time.Second {
			t.Errorf("a statement stayed for %s", took)
		}
		unlock()
		b.nothingLeft(t, db)
		if ran, err := r.TryDo(within(t), "a", set(1, 1)); !ran || err != nil {
			t.Error(ran, err)
		}
	})
}

// TestFact6_LeavingTheLine: those who leave cost the others nothing: one statement waits in the server for all of them, from first to last.
func TestFact6_LeavingTheLine(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		r := b.rows(t, "")
		unlock := b.lockedElsewhere(t, "a")
		const waiting = "SELECT COALESCE(MAX(id), 0) FROM information_schema.processlist WHERE db = ? AND info LIKE '%dibs_rows%FOR UPDATE'"
		var first int64
		ctx, cancel := context.WithCancel(within(t))
		head := make(chan error, 1)
		go func() { head <- r.Do(ctx, "a", set(1, 1)) }()
		eventually(t, "one waits", func() bool { first = b.number(t, waiting, b.database); return first != 0 })
		var wg sync.WaitGroup
		var busy atomic.Int64
		for i := range 30 {
			wg.Go(func() {
				err := r.Do(within(t), "a", set(1, 1), MaxWait(time.Duration(100+10*i)*time.Millisecond))
				if errors.Is(err, dibs.ErrBusy) {
					busy.Add(1)
				} else {
					t.Error(err)
				}
			})
		}
		last := make(chan error, 1)
		go func() { last <- r.Do(within(t), "a", set(1, 77)) }()
		eventually(t, "it is in the line", func() bool {
			r.mu.Lock()
			l := r.lines["a"]
			r.mu.Unlock()
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.waiting) == 2 // all others have left
		})
		cancel()
		if err := <-head; !errors.Is(err, context.Canceled) || !errors.Is(err, dibs.ErrBusy) {
			t.Error(err)
		}
		wg.Wait()
		if now := b.number(t, waiting, b.database); now != first {
			t.Errorf("thread %d waited, now it is %d", first, now)
		}
		if n := b.threads(t); n != 1 {
			t.Errorf("%d statements", n)
		}
		unlock()
		if err := <-last; err != nil || busy.Load() != 30 || b.stock(t, 1) != 77 {
			t.Error(err, busy.Load())
		}
	})
}

// TestFact7_TryDo: busy is (false, nil), whoever has the row, and does not wait; a row that is not there is never busy.
func TestFact7_TryDo(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		db := b.pool(t, "")
		r := b.rowsOn(t, db, nil)
		busy := func(what string) {
			t.Helper()
			began := time.Now()
			ran, err := r.TryDo(within(t), "a", set(1, 1))
			if took := time.Since(began); ran || err != nil || took > time.Second {
				t.Errorf("%s: %v, %v, after %s", what, ran, err, took)
			}
			if err := r.Do(within(t), "a", set(1, 1), MaxWait(0)); !errors.Is(err, dibs.ErrBusy) {
				t.Errorf("%s: %v", what, err)
			}
		}
		unlock := b.lockedElsewhere(t, "a")
		busy("held by a stranger")
		done := make(chan error, 1)
		go func() { done <- r.Do(within(t), "a", set(1, 2)) }()
		eventually(t, "one waits", func() bool { return b.threads(t) == 1 })
		busy("others wait")
		unlock()
		if err := <-done; err != nil {
			t.Error(err)
		}
		free := holding(t, r, "a")
		busy("held in this process")
		if err := r.Do(within(t), "a", set(1, 1), MaxWait(50*time.Millisecond)); !strings.Contains(fmt.Sprint(err), "held by this process") {
			t.Error(err)
		}
		if err := free(); err != nil {
			t.Error(err)
		}
		b.nothingLeft(t, db)
		b.must(t, b.admin, "DELETE FROM dibs_rows WHERE name = 'a'")
		if ran, err := r.TryDo(within(t), "a", set(1, 1)); ran || !errors.Is(err, ErrNotRegistered) {
			t.Error(ran, err)
		}
	})
}

// TestFact8_B31_LockIsHeld: however the pool's sessions are, the row is locked while the work runs, also after its first statement, and two never enter.
func TestFact8_B31_LockIsHeld(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		db := b.pool(t, "")
		db.SetMaxOpenConns(3)
		r := b.rowsOn(t, db, nil)
		var inside, ran atomic.Int64
		work := func(ctx context.Context, tx *sql.Tx) error {
			defer inside.Add(-1)
			if inside.Add(1) != 1 {
				t.Error("two at once")
			}
			ran.Add(1)
			if err := set(1, 1)(ctx, tx); err != nil {
				return err
			}
			if !b.isLocked(t, "a") {
				t.Error("not locked")
			}
			return nil
		}
		for range 100 {
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					if _, err := r.TryDo(within(t), "a", work); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		if ran.Load() < 100 {
			t.Errorf("%d works", ran.Load())
		}
		b.nothingLeft(t, db)
	})
}

// TestFact12_Crowd: 200 who wait for 40 rows on the application's own pool of 5: row locks use 3 of them, and the application goes on.
func TestFact12_Crowd(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		db := b.pool(t, "")
		db.SetMaxOpenConns(5)
		r := b.rowsOn(t, db, nil)
		if err := r.RegisterShards(within(t), "x", 40); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		unlock := b.lockedElsewhere(t, "x/0")
		var wg sync.WaitGroup
		var worked, left atomic.Int64
		for i := range 200 {
			wg.Go(func() {
				switch err := r.Do(ctx, fmt.Sprintf("x/%d", i%40), func(context.Context, *sql.Tx) error { time.Sleep(time.Millisecond); return nil }); {
				case err == nil:
					worked.Add(1)
				case errors.Is(err, context.Canceled) && !errors.Is(err, dibsdriver.ErrUnavailable):
					left.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		for worked.Load() < 195 && !t.Failed() { // all but those of x/0
			quick, stop := context.WithTimeout(t.Context(), 2*time.Second)
			if _, err := db.ExecContext(quick, "UPDATE stock SET n = n + 1 WHERE id = 1"); err != nil {
				t.Errorf("the application starves: %v", err)
			}
			stop()
			if n := db.Stats().InUse; n > 4 {
				t.Errorf("%d connections in use", n)
			}
			if n := len(r.slots); n > 2 {
				t.Errorf("%d transactions", n)
			}
		}
		cancel()
		wg.Wait()
		if worked.Load() != 195 || left.Load() != 5 {
			t.Errorf("%d worked, %d left", worked.Load(), left.Load())
		}
		unlock()
		b.nothingLeft(t, db)
	})
}

// TestFact12_HoldersNeedOneMore: all who may hold a row do, and each asks for another: they are told at once, and do not wait for each other. Who has none yet
// waits, or is told soon if it does not wait.
func TestFact12_HoldersNeedOneMore(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		db := b.pool(t, "")
		r := b.rowsOn(t, db, &RowsConfig{MaxConns: 3})
		if err := r.Register(within(t), "d"); err != nil {
			t.Fatal(err)
		}
		var both, told sync.WaitGroup
		both.Add(2)
		told.Add(2)
		var wg sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			wg.Go(func() {
				err := r.Do(within(t), name, func(ctx context.Context, tx *sql.Tx) error {
					both.Done()
					both.Wait()
					defer told.Wait()
					defer told.Done()
					if err := r.Do(ctx, "c", set(1, 1)); !errors.Is(err, dibsdriver.ErrUnavailable) || !strings.Contains(err.Error(), "MaxConns") {
						t.Error(err)
					}
					if name == "a" {
						if ran, err := r.TryDo(t.Context(), "d", set(1, 1)); ran || !errors.Is(err, dibsdriver.ErrUnavailable) {
							t.Error(ran, err)
						}
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		if err := r.Do(within(t), "c", set(2, 2)); err != nil {
			t.Error(err)
		}
		wg.Wait()
		b.nothingLeft(t, db)

		// The same by the pool: it is used up by transactions that ask for a row.
		db.SetMaxOpenConns(2)
		for range 2 {
			tx, err := db.Begin()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback() }()
		}
		began := time.Now()
		_, err := r.TryDo(t.Context(), "a", set(1, 1))
		if took := time.Since(began); !errors.Is(err, dibsdriver.ErrUnavailable) || !strings.Contains(err.Error(), "SetMaxOpenConns") || took > 2*rowPoolWait {
			t.Errorf("%v, after %s", err, took)
		}
	})
}

// TestB16_FailuresKeepNothing: 200 busy tries, 50 cancelled ones and 50 with an error leave no connection behind.
func TestB16_FailuresKeepNothing(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		db := b.pool(t, "")
		db.SetMaxOpenConns(5)
		r := b.rowsOn(t, db, nil)
		unlock := b.lockedElsewhere(t, "a")
		for i := range 50 {
			for range 4 {
				if ran, err := r.TryDo(within(t), "a", set(1, 1)); ran || err != nil {
					t.Fatal(ran, err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%6)*time.Millisecond)
			if err := r.Do(ctx, "a", set(1, 1)); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
			if err := r.Do(within(t), "b", func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "no SQL")
				return err
			}); code(err) != 1064 {
				t.Error(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := db.ExecContext(ctx, "SELECT 1"); err != nil {
			t.Error(err)
		}
		unlock()
		b.nothingLeft(t, db)
	})
}
