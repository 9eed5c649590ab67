package dibsdrivertest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dibs-go/dibs"
)

var loadCases = []testcase{
	{name: "B50/idle_waiters_cost_little", run: idleWaiters, needs: realTime | alone},
	{name: "B50/false_alarms_are_not_hammered", run: falseAlarms, needs: realTime | wakes},
	{name: "B50/waiters_do_not_keep_step", run: noLockstep},
}

// idleWaiters: two hundred waiters of one process are one client to the store, and need next to no processor time.
func idleWaiters(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	b := e.lockerWith(dibs.Config{TTL: max(e.ttl, 10*time.Second)})
	if e.f.session(e) {
		b = e.locker()
	}
	limits, err := e.driver().Limits()
	e.ok(err, "limits")
	held, _ := e.hold(b, "k")
	ctx, cancel := context.WithCancel(e.Context())
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			if _, _, err := a.Acquire(ctx, "k"); err == nil {
				e.Error("a second holder")
			}
		})
	}
	time.Sleep(2 * time.Second) // pauses grow to their longest
	const span = 2 * time.Second
	asked, used := faults.Calls(OpAcquire), processorTime()
	time.Sleep(span)
	calls, busy := faults.Calls(OpAcquire)-asked, time.Duration(processorTime()-used)
	cancel()
	wg.Wait()
	e.ok(held.Release(), "release")

	most := 2*int(span/limits.PollMax) + 10
	if calls > most {
		e.Errorf("200 waiters asked %d times in %s, want %d at most", calls, span, most)
	}
	limit := span / 25 // the kernel's part grows on a loaded machine
	if underRace {
		limit = span / 10
	}
	if busy > limit {
		e.Errorf("200 waiters used %s of processor time in %s", busy, span)
	}
	e.Logf("200 waiters: %d questions and %s of processor time in %s", calls, busy, span)
}

// noLockstep: twenty processes that began to wait in the same moment do not ask in the same moments, nor all at once when the key
// gets free.
func noLockstep(e *env) {
	const n = 20
	var mu sync.Mutex
	var asked []time.Duration
	began := time.Now()
	lockers, all := make([]*dibs.Locker, n), make([]*FaultyDriver, n)
	for i := range lockers {
		l, faults := e.faultyLocker(dibs.Config{})
		all[i] = faults
		faults.On(OpAcquire, Always, func(c *Call) error {
			mu.Lock()
			asked = append(asked, time.Since(began))
			mu.Unlock()
			return c.Apply(c.Ctx)
		})
		lockers[i] = l
	}
	holder := e.lockerWith(dibs.Config{TTL: max(e.ttl, 10*time.Second)})
	if e.f.session(e) {
		holder = e.locker()
	}
	held, _ := e.hold(holder, "k")
	ctx, cancel := context.WithCancel(e.Context())
	var wg sync.WaitGroup
	for _, l := range lockers {
		wg.Go(func() {
			if _, _, err := l.Acquire(ctx, "k"); err == nil {
				e.Error("a second holder")
			}
		})
	}
	// To start so many processes may take a while; what counts is what they do after that.
	e.until(20*time.Second, "all have asked", func() bool {
		return !slices.ContainsFunc(all, func(f *FaultyDriver) bool { return f.Calls(OpAcquire) == 0 })
	})
	mu.Lock()
	asked, began = nil, time.Now()
	mu.Unlock()
	const settle, span, bucket = 2 * time.Second, 3 * time.Second, 50 * time.Millisecond
	time.Sleep(settle + span)
	cancel()
	wg.Wait()
	e.ok(held.Release(), "release")

	mu.Lock()
	defer mu.Unlock()
	counts := make([]int, span/bucket)
	total := 0
	for _, at := range asked {
		if i := int((at - settle) / bucket); at >= settle && i < len(counts) {
			counts[i]++
			total++
		}
	}
	mean := float64(total) / float64(len(counts))
	for i, c := range counts {
		if float64(c) > 3*mean+8 { // the 8 is for few questions in all
			e.Errorf("%d questions in 50 ms (at %s), the mean is %.1f", c, settle+time.Duration(i)*bucket, mean)
		}
	}
	e.Logf("%d waiting processes: %.1f questions in 50 ms", n, mean)
}

// falseAlarms: waking a waiter too early is harmless, says the contract; so a store that does it all the time must not make the engine ask
// all the time.
func falseAlarms(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	limits, err := e.driver().Limits()
	e.ok(err, "limits")
	faults.On(OpWait, Always, func(*Call) error { return nil })
	held, _ := e.hold(e.locker(), "k", e.lasting()...)
	next := e.waits(a, "k")
	time.Sleep(500 * time.Millisecond)
	const span = time.Second
	before := faults.Calls(OpAcquire)
	time.Sleep(span)
	if n, most := faults.Calls(OpAcquire)-before, int(2*span/limits.PollMin); n > most {
		e.Errorf("%d questions in %s, want %d at most: the shortest pause is %s", n, span, most, limits.PollMin)
	}
	e.ok(held.Release(), "release")
	n := e.got(next, 5*time.Second)
	e.ok(n.lock.Release(), "release")
}
