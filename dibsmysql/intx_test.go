package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
)

// commitPacket begins the packet of a commit: the command's number, and its text.
const commitPacket = "\x03COMMIT"

// adds is work for a transaction.
func (b *bed) adds(t testing.TB) func(tx *sql.Tx) error {
	return func(tx *sql.Tx) error { b.must(t, tx, add); return nil }
}

func TestS7_InTx(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		b.work(t)
		db := b.pool(t, "wait_timeout=1234")
		db.SetMaxOpenConns(1) // all on one connection, which is to come back as it was
		l := b.locker(t, "", nil)
		lock, ctx := hold(t, l, "k")
		err := InTx(ctx, db, lock, func(tx *sql.Tx) error {
			b.must(t, tx, add)
			var id int64
			if err := tx.QueryRow("SELECT CONNECTION_ID()").Scan(&id); err != nil {
				return err
			}
			var level string
			err := b.admin.QueryRow("SELECT trx_isolation_level FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = ?", id).Scan(&level)
			if err != nil || level != "READ COMMITTED" {
				t.Errorf("isolation level %q, %v", level, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		b.worked(t, 1)
		if err := lock.Err(); err != nil {
			t.Error(err)
		}

		boom := errors.New("boom")
		if err := InTx(ctx, db, lock, func(tx *sql.Tx) error { b.must(t, tx, add); return boom }); err != boom {
			t.Errorf("%v", err)
		}
		func() {
			defer func() {
				if r := recover(); r != boom {
					t.Errorf("recovered %v", r)
				}
			}()
			_ = InTx(ctx, db, lock, func(tx *sql.Tx) error { b.must(t, tx, add); panic(boom) })
		}()
		var exit sync.WaitGroup
		exit.Go(func() {
			_ = InTx(ctx, db, lock, func(tx *sql.Tx) error { b.must(t, tx, add); runtime.Goexit(); return nil })
		})
		exit.Wait()
		b.worked(t, 1)

		var timeout int
		if err := db.QueryRow("SELECT @@SESSION.wait_timeout").Scan(&timeout); err != nil || timeout != 1234 {
			t.Errorf("the session has a wait_timeout of %d, %v", timeout, err)
		}
		if s := db.Stats(); s.InUse != 0 || s.OpenConnections != 1 {
			t.Errorf("%d connections in use, %d open", s.InUse, s.OpenConnections)
		}
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
	})
}

// TestInTxNested: within fn other transactions may be fenced, by this lock and by another.
func TestInTxNested(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		b.work(t)
		b.must(t, b.admin, "INSERT INTO work (id, n) VALUES (2, 0)")
		db := b.pool(t, "")
		l := b.locker(t, "", nil)
		lock, _ := hold(t, l, "k")
		other, _ := hold(t, l, "other")
		err := InTx(within(t), db, lock, func(tx *sql.Tx) error {
			b.must(t, tx, add)
			for _, lock := range []*dibs.Lock{lock, other} {
				err := InTx(within(t), db, lock, func(tx *sql.Tx) error { b.must(t, tx, "UPDATE work SET n = n + 1 WHERE id = 2"); return nil })
				if err != nil {
					return err
				}
			}
			return Fence(within(t), tx, other)
		})
		if n := b.number(t, "SELECT n FROM work WHERE id = 2"); err != nil || n != 2 {
			t.Errorf("%d, %v", n, err)
		}
		b.worked(t, 1)
		// Released inside, the outer one is refused.
		is(t, "released inside", InTx(within(t), db, lock, func(tx *sql.Tx) error {
			b.must(t, tx, add)
			return InTxAndRelease(within(t), db, lock, func(tx *sql.Tx) error { return nil })
		}), dibs.ErrReleased)
		b.worked(t, 1)
		// Many at once, by one lock.
		lock, _ = hold(t, l, "k")
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if err := InTx(within(t), db, lock, b.adds(t)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		b.worked(t, 11)
	})
}

// TestInTxContextEnds: the transaction is rolled back, and the context's error is there, whatever fn returns.
func TestInTxContextEnds(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		b.work(t)
		db := b.pool(t, "")
		l := b.locker(t, "", nil)
		lock, _ := hold(t, l, "k")
		why, boom := errors.New("why"), errors.New("boom")
		for _, says := range []error{nil, boom} {
			for _, in := range []func(context.Context, *sql.DB, *dibs.Lock, func(*sql.Tx) error) error{InTx, InTxAndRelease} {
				ctx, cancel := context.WithCancelCause(t.Context())
				err := in(ctx, db, lock, func(tx *sql.Tx) error {
					b.must(t, tx, add)
					cancel(why)
					return says
				})
				if !errors.Is(err, context.Canceled) || !errors.Is(err, why) || says != nil && !errors.Is(err, boom) || errors.Is(err, dibs.ErrOutcomeUnknown) {
					t.Errorf("%v", err)
				}
				if err := in(ctx, db, lock, b.adds(t)); !errors.Is(err, context.Canceled) {
					t.Errorf("begun after its context: %v", err)
				}
			}
		}
		b.worked(t, 0)
		if err := lock.Err(); err != nil {
			t.Error(err)
		}
		eventually(t, "no connection is in use", func() bool { return db.Stats().InUse == 0 })
		// The lock ends under fn.
		lost, ctx := hold(t, l, "lost", dibs.TTL(300*time.Millisecond))
		err := InTx(ctx, db, lost, func(tx *sql.Tx) error {
			b.must(t, tx, add)
			b.must(t, b.admin, "UPDATE dibs_leases SET owner = 'x', expires = '2999-01-01' WHERE lock_key = 'lost'")
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, dibs.ErrLost) {
			t.Errorf("%v", err)
		}
		b.worked(t, 0)
	})
}

func TestS7_InTxAndRelease(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		b.work(t)
		db := b.pool(t, "")
		var released, lost atomic.Int32
		l := b.locker(t, "", &dibs.Config{Events: dibs.Events{
			Released: func(e dibs.Event) {
				if e.Err != nil {
					t.Errorf("released with %v", e.Err)
				}
				released.Add(1)
			},
			Lost: func(dibs.Event) { lost.Add(1) },
		}})
		other := b.locker(t, "", nil)
		lock, ctx := hold(t, l, "k")
		if err := InTxAndRelease(ctx, db, lock, func(tx *sql.Tx) error { b.must(t, tx, add); return errors.New("boom") }); err == nil || lock.Err() != nil {
			t.Errorf("after fn's error: %v, %v", err, lock.Err())
		}
		if err := InTxAndRelease(ctx, db, lock, b.adds(t)); err != nil {
			t.Fatal(err)
		}
		b.worked(t, 1)
		if lock.Err() != dibs.ErrReleased || lock.Remaining() != 0 || context.Cause(ctx) != dibs.ErrReleased || lock.Verify(within(t)) != dibs.ErrReleased {
			t.Errorf("%v, %s, %v", lock.Err(), lock.Remaining(), context.Cause(ctx))
		}
		next, _, err := other.TryAcquire(within(t), "k")
		if err != nil {
			t.Fatal(err)
		}
		is(t, "once more", InTxAndRelease(within(t), db, lock, b.adds(t)), dibs.ErrReleased)
		for i, want := range []error{nil, dibs.ErrReleased} {
			if err := lock.Release(); err != want {
				t.Errorf("release %d: %v, want %v", i, err, want)
			}
		}
		if err := next.Release(); err != nil {
			t.Errorf("somebody released the next one's: %v", err)
		}
		// Within Do, nothing but success is to be seen; the next in line is served.
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				err := l.Do(within(t), "k", func(ctx context.Context) error {
					lock, _ := dibs.FromContext(ctx, "k")
					return InTxAndRelease(ctx, db, lock, b.adds(t))
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		b.worked(t, 6)

		// A min hold stands.
		lock, _ = hold(t, l, "min", dibs.MinHold(time.Hour))
		if err := InTxAndRelease(within(t), db, lock, b.adds(t)); err != nil {
			t.Error(err)
		}
		if _, _, err := other.TryAcquire(within(t), "min"); !errors.Is(err, dibs.ErrBusy) {
			t.Errorf("in its min hold: %v", err)
		}
		if _, _, left := b.peek(t, "min"); left < 59*time.Minute || left > time.Hour {
			t.Errorf("%s are left", left)
		}
		// Held twice.
		lock, ctx = hold(t, l, "twice")
		inner, _, err := l.Acquire(ctx, "twice", dibs.Reenter())
		if err != nil {
			t.Fatal(err)
		}
		for _, lock := range []*dibs.Lock{lock, inner} {
			if err := InTxAndRelease(within(t), db, lock, b.adds(t)); err == nil || !strings.Contains(err.Error(), "2 times") {
				t.Errorf("%v", err)
			}
		}
		b.worked(t, 7)
		if err := errors.Join(inner.Release(), InTxAndRelease(within(t), db, lock, b.adds(t)), lock.Release()); err != nil {
			t.Error(err)
		}
		b.worked(t, 8)
		eventually(t, "all releases are told", func() bool { return released.Load() == 8 })
		if n := lost.Load(); n != 0 {
			t.Errorf("%d locks are said to be lost", n)
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
