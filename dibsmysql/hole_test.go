package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
)

// TestB19_InTxOnADeadConnection: a work that fails, or whose context ends, does not wait for the network to give the connection up.
func TestB19_InTxOnADeadConnection(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		b.work(t)
		lock, _ := hold(t, b.locker(t, "", nil), "k")
		biz := errors.New("the business failed")
		for name, c := range map[string]struct {
			work func(ctx context.Context, tx *sql.Tx) error
			want error
		}{
			"the work fails":       {func(context.Context, *sql.Tx) error { return biz }, biz},
			"its context ends":     {func(ctx context.Context, _ *sql.Tx) error { <-ctx.Done(); return nil }, context.Canceled},
			"it hangs in a query":  {func(ctx context.Context, tx *sql.Tx) error { _, err := tx.ExecContext(ctx, add); return err }, context.Canceled},
			"the fence gets stuck": {func(context.Context, *sql.Tx) error { return nil }, context.Canceled},
		} {
			w := newWire(t, b.Addr)
			db := b.behind(t, w)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				done <- InTx(ctx, db, lock, func(tx *sql.Tx) error {
					if _, err := tx.Exec(add); err != nil {
						return err
					}
					w.hole()
					if c.want != biz {
						time.AfterFunc(300*time.Millisecond, cancel)
					}
					return c.work(ctx, tx)
				})
			}()
			select {
			case err := <-done:
				if !errors.Is(err, c.want) || errors.Is(err, dibs.ErrOutcomeUnknown) {
					t.Errorf("%s: %v", name, err)
				}
			case <-time.After(20 * time.Second): // a second or two
				t.Errorf("%s: InTx does not return", name)
				w.cutAll()
				<-done
			}
			cancel()
			w.cutAll() // now the server notices
			eventually(t, "nothing was committed, nothing is locked", func() bool {
				free, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := b.admin.ExecContext(free, "UPDATE work SET token = token + 1 WHERE id = 1")
				return err == nil
			})
			b.worked(t, 0)
		}
		if err := lock.Err(); err != nil {
			t.Error(err)
		}
	})
}

// TestB19_RowsOnADeadConnection: neither a work that failed nor one that panicked holds its caller, or its place, until the network gives the connection up.
func TestB19_RowsOnADeadConnection(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		biz := errors.New("the business failed")
		for name, work := range map[string]func() error{
			"fails":  func() error { return biz },
			"panics": func() error { panic(biz) },
		} {
			w := newWire(t, b.Addr)
			r := b.rowsOn(t, b.behind(t, w), &RowsConfig{MaxConns: 2})
			if err := r.Register(within(t), "dead", "other"); err != nil {
				t.Fatal(err)
			}
			done := make(chan any, 1)
			go func() {
				defer func() {
					if p := recover(); p != nil {
						done <- p
					}
				}()
				done <- r.Do(within(t), "dead", func(context.Context, *sql.Tx) error {
					w.hole()
					return work()
				})
			}()
			select {
			case got := <-done:
				if err, ok := got.(error); !ok || !errors.Is(err, biz) {
					t.Errorf("%s: %v", name, got)
				}
			case <-time.After(20 * time.Second): // a second or two
				t.Errorf("%s: Do does not return", name)
			}
			eventually(t, name+": its place is free", func() bool {
				ran, err := r.TryDo(within(t), "other", func(context.Context, *sql.Tx) error { return nil })
				return ran && err == nil
			})
		}
	})
}

// TestB47_RowsTryDuringAnOutage: a server that is away is not a row that is busy.
func TestB47_RowsTryDuringAnOutage(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		w := newWire(t, b.Addr)
		r := b.rowsOn(t, b.behind(t, w), nil)
		if err := r.Register(within(t), "k"); err != nil {
			t.Fatal(err)
		}
		free := holding(t, b.rows(t, ""), "k")
		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan error, 1)
		go func() { waited <- r.Do(ctx, "k", func(context.Context, *sql.Tx) error { return nil }) }()
		eventually(t, "it waits for the row", func() bool {
			return b.number(t, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = ? AND info LIKE '%dibs_rows%FOR UPDATE'", b.database) > 0
		})
		w.set(func(w *wire) { w.cut = true })
		w.cutAll()
		eventually(t, "who tries hears of the outage", func() bool {
			ran, err := r.TryDo(within(t), "k", func(context.Context, *sql.Tx) error { return nil })
			return !ran && errors.Is(err, dibs.ErrUnavailable)
		})
		for range 10 {
			if ran, err := r.TryDo(within(t), "k", func(context.Context, *sql.Tx) error { return nil }); ran || !errors.Is(err, dibs.ErrUnavailable) {
				t.Errorf("%v, %v", ran, err)
			}
		}
		cancel()
		<-waited
		_ = free()
	})
}
