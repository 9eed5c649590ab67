package dibsdrivertest

import (
	"context"
	"time"

	"github.com/dibs-go/dibs"
)

var minHoldCases = []testcase{
	{name: "L1/min_hold", run: minHold, needs: freeTTL},
	{name: "L1/min_hold_with_a_waiter", run: minHoldWaiter, needs: freeTTL},
	{name: "L1/min_hold_of_a_long_job", run: minHoldOver, needs: freeTTL},
	{name: "L1/min_hold_longer_than_ttl", run: minHoldTTL, needs: freeTTL},
	{name: "L1/min_hold_of_a_dead_holder", run: minHoldDead, needs: freeTTL},
}

// minHold: the job is quick, the key stays taken, and nobody waits for that who does not want the key.
func minHold(e *env) {
	a, b := e.locker(), e.locker()
	min := 2 * e.ttl
	began := time.Now()
	err := a.Do(e.Context(), "k", func(context.Context) error { return nil }, dibs.MinHold(min))
	e.took(began, 0, 0, "the job")
	done := time.Now()
	e.ok(err, "do")
	if l := e.store.Peek(e, "k"); !l.Held || l.Left > min {
		e.Errorf("the key is to be taken for %s: %+v", min, l)
	}
	e.busy(b, "k")
	e.busy(a, "k")
	lock, _, err := b.Acquire(e.Context(), "k", dibs.MaxWait(min+e.slack))
	e.ok(err, "acquire")
	if d := time.Since(began); d < min-time.Millisecond {
		e.Errorf("free after %s, min hold is %s", d, min)
	}
	e.took(done, 0, min, "the min hold")
	e.ok(lock.Release(), "release")
}

// minHoldWaiter: waiters of the same process do not get in before, nor those of another.
func minHoldWaiter(e *env) {
	a, b := e.locker(), e.locker()
	min := 3 * e.ttl / 2
	began := time.Now()
	lock, _ := e.hold(a, "k", dibs.MinHold(min))
	own, other := e.waits(a, "k"), e.waits(b, "k")
	time.Sleep(50 * time.Millisecond)
	e.ok(lock.Release(), "release")
	var first taken
	select {
	case first = <-own:
	case first = <-other:
	}
	e.ok(first.err, "a waiter")
	if d := first.at.Sub(began); d < min-time.Millisecond || d > min+e.slack {
		e.Errorf("a waiter had the key after %s, min hold is %s", d, min)
	}
	e.ok(first.lock.Release(), "release")
	var second taken
	select {
	case second = <-own:
	case second = <-other:
	}
	e.ok(second.err, "the other waiter")
	e.ok(second.lock.Release(), "release")
}

func minHoldOver(e *env) {
	a, b := e.locker(), e.locker()
	lock, _ := e.hold(a, "k", dibs.MinHold(e.ttl/2))
	time.Sleep(e.ttl)
	e.ok(lock.Release(), "release")
	next, _, err := b.TryAcquire(e.Context(), "k")
	e.ok(err, "the next try")
	e.ok(next.Release(), "release")
}

// minHoldTTL: the acquire itself stores the min hold, so that a holder that dies at once keeps it too; renewals do not shorten it.
func minHoldTTL(e *env) {
	a := e.locker()
	began := time.Now()
	lock, _ := e.hold(a, "k", dibs.MinHold(10*e.ttl))
	left := func() time.Duration { return e.store.Peek(e, "k").Left + time.Since(began) }
	if d := left(); d < 10*e.ttl-50*time.Millisecond {
		e.Errorf("stored for %s, min hold is %s", d, 10*e.ttl)
	}
	if lock.Remaining() > 10*e.ttl {
		e.Errorf("trusted for %s", lock.Remaining())
	}
	time.Sleep(e.ttl)
	if d := left(); d < 10*e.ttl-50*time.Millisecond {
		e.Errorf("after renewals stored for %s, min hold is %s", d, 10*e.ttl)
	}
	e.ok(lock.Release(), "release")
	if d := left(); d < 10*e.ttl-50*time.Millisecond || d > 10*e.ttl+e.slack {
		e.Errorf("after release stored for %s, min hold is %s", d, 10*e.ttl)
	}
}

// minHoldDead: nobody releases; the key is free after the TTL or the min hold, whichever is longer.
func minHoldDead(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	b := e.locker()
	min := 2 * e.ttl
	began := time.Now()
	e.hold(a, "k", dibs.MinHold(min))
	faults.OnAll(FailBefore(errAway))
	lock, _ := e.hold(b, "k")
	if d := time.Since(began); d < min-time.Millisecond || d > min+e.slack {
		e.Errorf("free after %s, min hold is %s", d, min)
	}
	e.ok(lock.Release(), "release")
}
