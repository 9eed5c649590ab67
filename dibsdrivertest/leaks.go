package dibsdrivertest

import (
	"context"
	"sync"
	"time"

	"github.com/dibs-go/dibs"
)

var leakCases = []testcase{
	{name: "L5/B09/rounds", run: leakRounds, needs: realTime | heavy},
	{name: "L5/B09/goroutines_end_when_idle", run: leakIdle, needs: realTime},
	{name: "L5/nothing_is_left", run: leakAll(inMoves(HoleReply())), needs: realTime},
	{name: "L5/nothing_is_left_of_a_wire_without_answers", run: leakAll(onWire((*Proxy).HoleReplies)), needs: realTime | networked},
	{name: "L5/nothing_is_left_of_a_cut_wire", run: leakAll(onWire((*Proxy).Cut)), needs: realTime | networked},
	{name: "L2/cancelled_waiters_leave_nothing_in_the_server", run: leakNoThread, needs: sessions},
}

// leakRounds: each way in which a call can end, many times over, leaves no goroutine behind.
func leakRounds(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	b := e.locker()
	e.free(a, "warm up", 5*time.Second)
	held, _ := e.hold(b, "held")
	defer held.Release()
	rounds := map[string]struct {
		n  int
		do func()
	}{
		"acquire and release": {1000, func() { e.free(a, "k", 5*time.Second) }},
		"acquire, lose, release": {5, func() {
			lock, work := e.hold(a, "lost")
			_, err := b.BreakNow(e.Context(), "lost", lock.Token())
			e.ok(err, "break")
			receive(e, work.Done())
			lock.Release()
		}},
		"a try that is refused": {1000, func() { a.TryAcquire(e.Context(), "held") }},
		"a wait that ends": {200, func() {
			ctx, cancel := context.WithTimeout(e.Context(), time.Millisecond)
			defer cancel()
			a.Acquire(ctx, "held")
		}},
		"an ended context": {1000, func() {
			ctx, cancel := context.WithCancel(e.Context())
			cancel()
			a.Acquire(ctx, "k")
		}},
		"a store that fails": {200, func() {
			rule := faults.On(OpAcquire, Always, FailBefore(errAwayNotApplied))
			a.TryAcquire(e.Context(), "k2")
			rule.Off()
		}},
	}
	base := e.goroutines()
	for name, r := range rounds {
		for range r.n {
			r.do()
		}
		e.back(base+5, 2*time.Second+e.slack, name)
	}
}

// leakIdle: a Locker that holds nothing and waits for nothing has no goroutine at all.
func leakIdle(e *env) {
	base := e.goroutines()
	lockers := make([]*dibs.Locker, 20)
	for i := range lockers {
		lockers[i] = e.locker()
		lock, _ := e.hold(lockers[i], "k")
		e.ok(lock.Release(), "release")
	}
	// What a driver keeps for itself (a pool's opener) ends with Close.
	e.back(base+3*len(lockers), 5*time.Second, "the engines' work")
	for _, l := range lockers {
		e.ok(l.Shutdown(e.Context()), "shutdown")
	}
	e.back(base, 5*time.Second, "shutdown")
}

// leakAll: after a bit of everything, goroutines, rows that are held, places in queues and sessions are back where they were.
func leakAll(tr trouble) func(e *env) {
	return func(e *env) { e.leakAll(tr) }
}

func (e *env) leakAll(tr trouble) {
	f := e.openLink(tr)
	base := e.goroutines()
	a, err := dibs.New(f.Driver(), e.config(dibs.Config{RequestTimeout: time.Second}))
	e.ok(err, "new")
	b, err := dibs.New(e.store.Driver(e), e.config(dibs.Config{}))
	e.ok(err, "new")
	held, _ := e.hold(b, "k")
	second, _ := e.hold(a, "k2")
	waits := []<-chan taken{e.waits(a, "k"), e.waits(a, "k", dibs.MaxWait(100*time.Millisecond))}
	f.answersAll(e)
	f.begin()
	second.Release()
	time.Sleep(500 * time.Millisecond)
	f.Heal()
	e.ok(held.Release(), "release")
	n := e.got(waits[0], 10*time.Second)
	n.lock.Release()
	receive(e, waits[1]) // its wait was over
	if q, ok := e.store.(QueueCounter); ok {
		e.until(time.Second+e.slack, "nothing is left in the queue", func() bool { return q.Queued(e, "k") == 0 && q.Queued(e, "k2") == 0 })
	}
	e.ok(a.Shutdown(e.Context()), "shutdown")
	e.ok(b.Shutdown(e.Context()), "shutdown")
	if s, ok := e.store.(SessionCounter); ok {
		e.until(time.Second+e.slack, "no session is left", func() bool { all, _ := s.Sessions(e); return all == 0 })
	}
	last := e.store.Driver(e)
	e.until(2*e.ttl+e.slack, "no lease is left", func() bool {
		records, err := last.List(e.Context(), "")
		e.ok(err, "list")
		return len(records) == 0
	})
	e.ok(last.Close(), "close")
	e.back(base, time.Second+e.slack, "all was released")
}

// leakNoThread: what a waiter of another process had under way in the server has ended a second after the last of them has gone.
func leakNoThread(e *env) {
	a, b := e.locker(), e.locker()
	s := e.store.(SessionCounter)
	for range 3 {
		held, _ := e.hold(a, "k", e.lasting()...)
		ctx, cancel := context.WithCancel(e.Context())
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if _, _, err := b.Acquire(ctx, "k"); err == nil {
					e.Error("a second holder")
				}
			})
		}
		time.Sleep(time.Second)
		cancel()
		all.Wait()
		e.until(time.Second+e.slack, "no statement is left in the server", func() bool { _, working := s.Sessions(e); return working == 0 })
		e.ok(held.Release(), "release")
		e.free(b, "k", e.slack)
	}
}
