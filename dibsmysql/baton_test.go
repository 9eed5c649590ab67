package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// waits starts a wait of a waiter that was told "busy".
func waits(t *testing.T, d *Driver, key, waiter string) <-chan error {
	t.Helper()
	p := params(key, time.Minute)
	p.Waiter = waiter
	if r, err := d.Acquire(within(t), p); err != nil || r.Acquired {
		t.Fatalf("%+v, %v", r, err)
	}
	done := make(chan error, 1)
	go func() { done <- d.Wait(within(t), dibsdriver.WaitParams{Key: key, Waiter: waiter}) }()
	return done
}

// inLine tells whether a thread of the application's user waits for a named lock.
func (b *bed) inLine(t testing.TB) int64 {
	t.Helper()
	return b.number(t, "SELECT COUNT(*) FROM information_schema.processlist WHERE user = ? AND db = ? AND command <> 'Sleep' AND info LIKE '%GET_LOCK%' AND info NOT LIKE '%GET\\_LOCK(%, 0)%'",
		b.App.User, b.database)
}

func (b *bed) batonFree(t testing.TB, d *Driver, key string) bool {
	t.Helper()
	return b.number(t, "SELECT IS_FREE_LOCK("+d.batonName(d.server.Load(), key)+")") == 1
}

// holds takes a key, and returns when the holder has its baton as well.
func (b *bed) holds(t *testing.T, d *Driver, key string) (owner string) {
	t.Helper()
	owner, _ = take(t, d, key, time.Minute)
	eventually(t, "the holder has the baton", func() bool { return !b.batonFree(t, d, key) })
	return owner
}

// waiter waits for a key in the server, as the only one there.
func (b *bed) waiter(t *testing.T, d *Driver, key string) (w string, woken <-chan error) {
	t.Helper()
	w = newOwner()
	woken = waits(t, d, key, w)
	eventually(t, "it waits in the server", func() bool { return b.inLine(t) == 1 })
	return w, woken
}

// TestFact51_TheNextIsWoken by the release, and asks nothing before.
func TestFact51_TheNextIsWoken(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		holder, next := b.driver(t, ""), b.driver(t, "")
		owner := b.holds(t, holder, "k")
		w, woken := b.waiter(t, next, "k")
		asked := next.looks.Load()
		time.Sleep(300 * time.Millisecond)
		if n := next.looks.Load() - asked; n != 0 {
			t.Errorf("it looked at the row %d times meanwhile", n)
		}
		began := time.Now()
		release(t, holder, "k", owner)
		if err := <-woken; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("woken after %s", took)
		}
		p := params("k", time.Minute)
		p.Waiter = w
		if r, err := next.Acquire(within(t), p); err != nil || !r.Acquired {
			t.Fatalf("%+v, %v", r, err)
		}
		release(t, next, "k", p.Owner)
		if !b.batonFree(t, next, "k") {
			t.Error("the baton was not given away")
		}
	})
}

// TestWhoLetGoWaitsItsTurn: a process that has just released the key does not take it again before others that wait.
func TestWhoLetGoWaitsItsTurn(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		greedy, other := b.driver(t, ""), b.driver(t, "")
		owner := b.holds(t, greedy, "k")
		w, woken := b.waiter(t, other, "k")
		release(t, greedy, "k", owner)
		p := params("k", time.Minute)
		p.Waiter = newOwner()
		if r, err := greedy.Acquire(within(t), p); err != nil || r.Acquired || r.Holder.Token != 0 || !r.Contended {
			t.Errorf("a waiter of who let go: %+v, %v", r, err)
		}
		if err := <-woken; err != nil {
			t.Fatal(err)
		}
		q := params("k", time.Minute)
		q.Waiter = w
		if r, err := other.Acquire(within(t), q); err != nil || !r.Acquired {
			t.Errorf("the waiter whose turn it is: %+v, %v", r, err)
		}
	})
}

// TestAStuckTurnIsPassedOn: the next in line is frozen, or its machine is gone. It delays the others by 5 s at most, and once.
func TestAStuckTurnIsPassedOn(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		frozen := b.pool(t, "")
		one, err := frozen.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		l := b.locker(t, "", nil)
		if lock, _, err := l.Acquire(within(t), "k"); err != nil {
			t.Fatal(err)
		} else if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
		other := b.driver(t, "")
		var got sql.NullInt64
		if err := other.Ping(within(t)); err != nil {
			t.Fatal(err)
		}
		name := other.batonName(other.server.Load(), "k")
		if err := one.QueryRowContext(t.Context(), "SELECT GET_LOCK("+name+", 5)").Scan(&got); err != nil || got.Int64 != 1 {
			t.Fatal(got, err)
		}
		owner, _ := take(t, other, "k", time.Minute)
		taken := make(chan *dibs.Lock, 1)
		go func() {
			lock, _, err := l.Acquire(within(t), "k")
			if err != nil {
				t.Error(err)
			}
			taken <- lock
		}()
		eventually(t, "it waits", func() bool { return b.inLine(t) == 1 })
		began := time.Now()
		release(t, other, "k", owner)
		lock := <-taken
		if took := time.Since(began); took > dibsdriver.QueueGrace {
			t.Errorf("the turn passed on after %s", took)
		}
		ended := func() bool { return one.QueryRowContext(within(t), "SELECT 1").Scan(&got) != nil }
		for turns := 0; !ended(); turns++ { // at the latest when somebody has waited for the one that is stuck, and had the key all the same
			if err := lock.Release(); err != nil { // into a turn that nobody makes use of
				t.Error(err)
			}
			began = time.Now()
			lock, _, err = l.Acquire(within(t), "k")
			if took := time.Since(began); err != nil || took > dibsdriver.QueueGrace {
				t.Fatalf("the turn passed on after %s: %v", took, err)
			}
			if turns == 10 {
				t.Fatal("the stuck session has not been ended")
			}
			time.Sleep(500 * time.Millisecond) // in which it is ended
		}
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
	})
}

// TestFact51_AnAbandonedWaitLeavesNothing: no thread, no baton, after a second.
func TestFact51_AnAbandonedWaitLeavesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		holder, d := b.driver(t, ""), b.driver(t, "")
		owner := b.holds(t, holder, "k")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Wait(ctx, dibsdriver.WaitParams{Key: "k", Waiter: newOwner()}) }()
		eventually(t, "it waits", func() bool { return b.inLine(t) == 1 })
		cancel()
		began := time.Now()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if took := time.Since(began); took > 50*time.Millisecond+time.Second/10 {
			t.Errorf("the wait returned after %s", took)
		}
		eventually(t, "no thread waits", func() bool { return b.inLine(t) == 0 })
		if took := time.Since(began); took > time.Second {
			t.Errorf("a thread waited for %s", took)
		}
		release(t, holder, "k", owner)
		if !b.batonFree(t, holder, "k") {
			t.Error("an abandoned wait has the baton")
		}
		if n := d.batons.waiting; n != 0 {
			t.Errorf("%d connections are counted as waiting", n)
		}
	})
}

// TestWhoLeavesGivesItsTurnUp, also if it came in the same moment.
func TestWhoLeavesGivesItsTurnUp(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		holder, d := b.driver(t, ""), b.driver(t, "")
		owner := b.holds(t, holder, "k")
		w, woken := b.waiter(t, d, "k")
		release(t, holder, "k", owner)
		if err := <-woken; err != nil {
			t.Fatal(err)
		}
		if b.batonFree(t, d, "k") {
			t.Error("it is not next")
		}
		if err := d.Leave(within(t), dibsdriver.WaitParams{Key: "k", Waiter: newOwner()}); err != nil || b.batonFree(t, d, "k") {
			t.Errorf("another's turn was given up: %v", err)
		}
		if err := d.Leave(within(t), dibsdriver.WaitParams{Key: "k", Waiter: w}); err != nil || !b.batonFree(t, d, "k") {
			t.Errorf("it still has its turn: %v", err)
		}
	})
}

// TestALostLeaseLosesItsBaton: those who wait are not held up by a holder that has nothing any more.
func TestALostLeaseLosesItsBaton(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		owner := b.holds(t, d, "k")
		b.must(t, b.admin, "UPDATE dibs_leases SET owner = NULL, expires = '1970-01-01'")
		renewed(t, d, dibsdriver.Lost, "k", owner, time.Minute)
		eventually(t, "the baton is free", func() bool { return b.batonFree(t, d, "k") })
	})
}

// TestWithoutBatons waiters poll: where the server refuses named locks, or the pool has no connection to spare.
func TestWithoutBatons(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		for name, cfg := range map[string]*Config{"refused": nil, "no connections": {WaitConnections: -1}, "a small pool": nil} {
			db := b.pool(t, "")
			if name == "a small pool" {
				db.SetMaxOpenConns(2)
			}
			d := New(db, cfg)
			d.batons.refused.Store(name == "refused")
			l, err := dibs.New(d, nil)
			if err != nil {
				t.Fatal(err)
			}
			holder := b.driver(t, "")
			owner, _ := take(t, holder, "k", time.Minute)
			var all sync.WaitGroup
			for range 5 {
				all.Go(func() {
					if err := l.Do(within(t), "k", func(context.Context) error { return nil }); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
			time.Sleep(300 * time.Millisecond)
			if n := b.inLine(t); n != 0 {
				t.Errorf("%s: %d threads wait in the server", name, n)
			}
			release(t, holder, "k", owner)
			began := time.Now()
			all.Wait()
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("%s: polling took %s", name, took)
			}
			if err := l.Shutdown(within(t)); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestWaitersDoNotEatThePool: many contended keys wait on a few connections, and the application's work goes on.
func TestWaitersDoNotEatThePool(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		holder := b.driver(t, "")
		db := b.pool(t, "")
		db.SetMaxOpenConns(6)
		l, err := dibs.New(New(db, nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		for i := range 20 {
			key := string(rune('a' + i))
			take(t, holder, key, time.Minute)
			all.Go(func() { _, _, _ = l.Acquire(ctx, key) })
		}
		eventually(t, "some wait in the server", func() bool { return b.inLine(t) > 0 })
		for range 20 {
			began := time.Now()
			var one int
			if err := db.QueryRowContext(within(t), "SELECT 1").Scan(&one); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("the application waited %s for a connection", took)
			}
			if n := b.inLine(t); n > 2 {
				t.Errorf("%d of the pool's 6 connections wait", n)
			}
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
		all.Wait()
		if err := l.Shutdown(within(t)); err != nil {
			t.Error(err)
		}
	})
}

// TestASmallPoolDoesNotStarve: processes whose pools leave them no connection to wait on get their turns, one of them beside one that waits in the server.
func TestASmallPoolDoesNotStarve(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		counts := make([]atomic.Int64, 3)
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		defer cancel()
		var all sync.WaitGroup
		for i := range counts {
			db := b.pool(t, "")
			db.SetMaxOpenConns(4)
			l := locker(t, New(db, &Config{WaitConnections: -1}), nil)
			for range 5 {
				all.Go(func() {
					for ctx.Err() == nil {
						_ = l.Do(ctx, "k", func(context.Context) error {
							counts[i].Add(1)
							time.Sleep(5 * time.Millisecond)
							return nil
						})
					}
				})
			}
		}
		all.Wait()
		total := counts[0].Load() + counts[1].Load() + counts[2].Load()
		for i := range counts {
			if n := counts[i].Load(); n < total/10 || total < 30 {
				t.Errorf("process %d had the key %d times of %d", i, n, total)
			}
		}
	})
}
