package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// TestFact31_32_CommitCutOff: wherever the connection is cut at the end, nil means committed, "outcome unknown" is said only of a COMMIT that was sent, and any
// other error means that nothing is committed.
func TestFact31_32_CommitCutOff(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		b.rows(t, "")
		var unknown, not, fine int
		for n := 0; n < 130; n += 3 {
			w := newWire(t, b.Addr)
			db := opened(t, b.App.User+":"+b.App.Password+"@tcp("+w.addr()+")/"+b.database)
			r, err := NewRows(within(t), db, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = r.Do(within(t), "a", func(ctx context.Context, tx *sql.Tx) error {
				if _, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO stock VALUES (%d, 0)", 1000+n)); err != nil {
					return err
				}
				w.set(func(w *wire) { w.cutAfter = n })
				return nil
			})
			there := b.number(t, "SELECT COUNT(*) FROM stock WHERE id = ?", 1000+n) == 1
			switch {
			case err == nil:
				fine++
				if !there {
					t.Errorf("cut after %d bytes: committed, and nothing is there", n)
				}
			case errors.Is(err, dibs.ErrOutcomeUnknown):
				unknown++
			default:
				not++
				if there || !errors.Is(err, dibs.ErrLost) {
					t.Errorf("cut after %d bytes: it is there: %v; %v", n, there, err)
				}
			}
			db.Close()
			eventually(t, "the row is free", func() bool { return !b.isLocked(t, "a") })
		}
		if unknown == 0 || not == 0 || fine == 0 {
			t.Errorf("%d unknown, %d not committed, %d committed: the cuts miss something", unknown, not, fine)
		}
	})
}

// TestFact31_SilentCommit: the server does not answer any more: Do comes back soon after its context has ended, and says what is true.
func TestFact31_SilentCommit(t *testing.T) {
	t.Parallel()
	onBothAlone(t, nil, func(t *testing.T, b *bed) {
		r := b.rows(t, "")
		for _, waiting := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
			free := func() error { return nil }
			if waiting {
				free = holding(t, b.rows(t, ""), "a")
			}
			began := time.Now()
			frozen := make(chan struct{})
			time.AfterFunc(300*time.Millisecond, func() { b.Freeze(t); close(frozen) })
			err := r.Do(ctx, "a", func(ctx context.Context, tx *sql.Tx) error {
				if err := set(1, 5)(ctx, tx); err != nil {
					return err
				}
				time.Sleep(400 * time.Millisecond)
				return nil
			})
			took := time.Since(began)
			cancel()
			<-frozen // late on a busy machine, or it would stay so
			if err == nil || took > 4*time.Second || waiting && took > 800*time.Millisecond {
				t.Errorf("waiting %v: %v, after %s", waiting, err, took)
			}
			b.Thaw(t)
			if err := free(); err != nil {
				t.Error(err)
			}
			eventually(t, "nothing of it is left in the server", func() bool { return b.threads(t) == 0 && !b.isLocked(t, "a") })
			if n := b.stock(t, 1); !errors.Is(err, dibs.ErrOutcomeUnknown) && n != 100 {
				t.Errorf("waiting %v: %d is in the table: %v", waiting, n, err)
			}
		}
	})
}

// TestRowsOutage: the server is killed. The holder hears that all is lost, who comes is told at once, and who waits and has heard of the server before waits
// the outage out.
func TestRowsOutage(t *testing.T) {
	t.Parallel()
	onBothAlone(t, nil, func(t *testing.T, b *bed) {
		holder, r := b.rows(t, ""), b.rows(t, "")
		fresh := b.rows(t, "")
		lost := make(chan error, 1)
		has := make(chan struct{})
		long, cancel := context.WithTimeout(t.Context(), time.Minute) // a server needs its time to start again
		defer cancel()
		go func() {
			lost <- holder.Do(long, "a", func(ctx context.Context, tx *sql.Tx) error {
				if err := set(1, 5)(ctx, tx); err != nil {
					return err
				}
				close(has)
				<-ctx.Done()
				return nil
			})
		}()
		<-has
		var wg sync.WaitGroup
		var ran atomic.Int64
		for range 20 {
			wg.Go(func() {
				if err := r.Do(long, "a", func(context.Context, *sql.Tx) error { ran.Add(1); return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		eventually(t, "all wait, for a server that has answered", func() bool {
			r.mu.Lock()
			l := r.lines["a"]
			r.mu.Unlock()
			if l == nil {
				return false
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.waiting) == 20 && l.busyNow
		})
		b.Kill()
		began := time.Now()
		for range 3 {
			if err := fresh.Do(within(t), "a", set(1, 1)); !errors.Is(err, dibsdriver.ErrUnavailable) {
				t.Error(err)
			}
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %s", took)
		}
		if ran.Load() != 0 {
			t.Error("a work ran")
		}
		if err := b.Start(); err != nil {
			t.Fatal(err)
		}
		if err := <-lost; !errors.Is(err, dibs.ErrLost) || errors.Is(err, dibs.ErrOutcomeUnknown) {
			t.Error(err)
		}
		wg.Wait()
		if ran.Load() != 20 || b.stock(t, 1) != 100 {
			t.Errorf("%d works; %d", ran.Load(), b.stock(t, 1))
		}
	})
}
