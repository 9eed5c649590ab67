package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dibs-go/dibs"
)

// commitPacket begins the packet of a commit: the command's number, and its text.
const commitPacket = "\x03COMMIT"

// adds is work for a transaction.
func (b *bed) adds(t testing.TB) func(tx *sql.Tx) error {
	return func(tx *sql.Tx) error { b.must(t, tx, add); return nil }
}

// TestS7_InTx: at READ COMMITTED, and however the work ends, the session comes back as it was.
func TestS7_InTx(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		b.work(t)
		db := b.pool(t, "wait_timeout=1234")
		db.SetMaxOpenConns(1) // all on one connection
		lock, ctx := hold(t, b.locker(t, "", nil), "k")
		boom := errors.New("boom")
		for what, end := range map[string]func() error{
			"success": func() error { return nil },
			"error":   func() error { return boom },
			"panic":   func() error { panic(boom) },
			"goexit":  func() error { runtime.Goexit(); return nil },
		} {
			before := b.number(t, "SELECT n FROM work WHERE id = 1")
			var level string
			var exit sync.WaitGroup
			exit.Go(func() {
				defer func() { _ = recover() }()
				_ = InTx(ctx, db, lock, func(tx *sql.Tx) error {
					b.must(t, tx, add)
					var id int64
					if err := tx.QueryRow("SELECT CONNECTION_ID()").Scan(&id); err != nil {
						return err
					}
					err := b.admin.QueryRow("SELECT trx_isolation_level FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = ?", id).Scan(&level)
					if err != nil {
						t.Error(err)
					}
					return end()
				})
			})
			exit.Wait()
			if level != "READ COMMITTED" {
				t.Errorf("isolation level %q", level)
			}
			if what == "success" {
				before++
			}
			b.worked(t, before)
			if err := lock.Err(); err != nil {
				t.Error(err)
			}
			var timeout int
			if err := db.QueryRow("SELECT @@SESSION.wait_timeout").Scan(&timeout); err != nil || timeout != 1234 {
				t.Errorf("%s: the session has a wait_timeout of %d, %v", what, timeout, err)
			}
			if s := db.Stats(); s.InUse != 0 || s.OpenConnections != 1 {
				t.Errorf("%s: %d connections in use, %d open", what, s.InUse, s.OpenConnections)
			}
		}
	})
}

// TestInTxAndReleaseUnderRenewals: a renewal that finds the lease gone, since the commit has released it, raises no alarm.
func TestInTxAndReleaseUnderRenewals(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		w := newWire(t, b.Addr) // which lets the commit's answer wait
		db := opened(t, b.App.User+":"+b.App.Password+"@tcp("+w.addr()+")/"+b.database)
		b.work(t)
		var lost atomic.Int32
		l := b.locker(t, "", &dibs.Config{Events: dibs.Events{Lost: func(dibs.Event) { lost.Add(1) }}})
		lock, ctx := hold(t, l, "k")
		w.set(func(w *wire) { w.deafAt = commitPacket })
		done := make(chan error, 1)
		go func() { done <- InTxAndRelease(context.WithoutCancel(ctx), db, lock, b.adds(t)) }()
		eventually(t, "committed", func() bool { return b.number(t, "SELECT n FROM work WHERE id = 1") == 1 })
		if err := lock.Verify(within(t)); !errors.Is(err, dibs.ErrLost) { // as a renewal finds it
			t.Fatalf("%v", err)
		}
		w.cutAll()
		is(t, "the answer was lost", <-done, dibs.ErrOutcomeUnknown)
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
		if n := lost.Load(); n != 0 {
			t.Errorf("%d locks are said to be lost", n)
		}
	})
}
