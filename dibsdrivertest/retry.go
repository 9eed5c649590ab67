package dibsdrivertest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

var retryCases = []testcase{
	{name: "L4/B03/renewal_fails_once", run: retryAfter(First(1), FailBefore(errAway))},
	{name: "L4/B03/renewal_answer_dropped_once", run: retryAfter(First(1), DropReply())},
	{name: "L4/B03/renewal_swallowed_once", run: retryAfter(First(1), Hole())},
	{name: "L4/B03/renewal_hangs_once", run: retryAfter(First(1), Hang())},
	{name: "L4/B03/every_second_renewal_fails", run: retryAfter(func(n int, _ *Call) bool { return n%2 == 1 }, FailBefore(errAway))},
	{name: "L4/B03/every_second_renewal_hangs", run: retryAfter(func(n int, _ *Call) bool { return n%2 == 1 && n < 6 }, Hang())},
	{name: "L4/B03/renewal_unknown_once", run: retryAfter(First(1), Answer("k", dibsdriver.Unknown))},
	{name: "L4/B03/store_away_for_half_a_window", run: retryOutage(inMoves(FailBefore(errAway)), 40)},
	{name: "L4/B03/wire_cut_at_the_renewal", run: retryOutage(onWire((*Proxy).Cut), 20), needs: networked},
	{name: "L4/B03/wire_stalls_at_the_renewal", run: retryOutage(onWire((*Proxy).Stall), 20), needs: networked},
	{name: "L4/B03/wire_swallows_the_renewal", run: retryOutage(onWire((*Proxy).Hole), 20), needs: networked},
	{name: "L4/B03/wire_swallows_the_answer", run: retryOutage(onWire((*Proxy).HoleReplies), 20), needs: networked},
	{name: "L4/B03/wire_resets_again_and_again", run: retryResets, needs: networked},
	{name: "L4/B03/connections_forgotten", run: retryForgotten, needs: networked},
	{name: "L4/B03/one_of_a_batch_unknown", run: retryBatch},
	{name: "L4/renewal_refused", run: renewalRefused(Answer("k", dibsdriver.Refused))},
	{name: "L4/renewals_refused", run: renewalRefused(FailBefore(dibsdriver.NotApplied(errRefused)))},
}

var errRefused = errors.Join(dibsdriver.ErrRefused, errors.New("no rights on the table"))

// retryAfter makes some renewals go wrong, and nothing may come of it.
func retryAfter(when When, fault Fault) func(e *env) {
	return func(e *env) {
		a, faults := e.faultyLocker(dibs.Config{})
		b := e.locker()
		rule := faults.On(OpRenew, when, fault)
		lock, work := e.hold(a, "k")
		e.throughout(3*e.ttl, "held", func() bool {
			return lock.Err() == nil && work.Err() == nil && e.store.Peek(e, "k").Held
		})
		if rule.Hits() == 0 {
			e.Error("no renewal went wrong")
		}
		e.busy(b, "k")
		faults.Heal()
		e.ok(lock.Release(), "release")
	}
}

// retryOutage: the store goes away just before a renewal is due, for so many hundredths of the TTL, less than half of what the lease has left. (What was
// swallowed is asked for again after a quarter of the TTL, and if that was swallowed too, after another: it has to be over sooner.)
func retryOutage(tr trouble, percent time.Duration) func(e *env) {
	return func(e *env) {
		a, faults := e.linked(dibs.Config{}, tr)
		lock, work := e.hold(a, "k")
		for range 3 {
			time.Sleep(e.ttl/3 - 20*time.Millisecond)
			faults.begin()
			time.Sleep(percent * e.ttl / 100)
			faults.Heal()
			good := faults.LastGood(OpRenew)
			e.until(e.ttl+e.slack, "renewed after the outage", func() bool { return faults.LastGood(OpRenew).After(good) })
		}
		if lock.Err() != nil || work.Err() != nil {
			e.Errorf("an outage of less than half a trust window cost the lease: %v", lock.Err())
		}
		e.ok(lock.Release(), "release")
	}
}

// retryResets: no connection lives longer than a few milliseconds after a renewal was due.
func retryResets(e *env) {
	a, faults := e.linked(dibs.Config{}, onWire((*Proxy).Reset))
	lock, work := e.hold(a, "k")
	for range 30 {
		time.Sleep(e.ttl/10 + e.f.trips(10))
		faults.begin()
	}
	e.ok(lock.Verify(e.Context()), "verify")
	if lock.Err() != nil || work.Err() != nil {
		e.Errorf("connections that were reset cost the lease: %v", lock.Err())
	}
	e.ok(lock.Release(), "release")
	e.free(e.locker(), "k", e.slack)
}

// retryForgotten: all connections that there are lead nowhere, and nobody is told. New ones would work, so the lease need not be lost.
func retryForgotten(e *env) {
	a, faults := e.linked(dibs.Config{}, onWire((*Proxy).Forget))
	var many sync.WaitGroup // so that there are as many connections as a client keeps
	for i := range 8 {
		many.Go(func() { e.free(a, fmt.Sprint("other", i), 10*time.Second) })
	}
	many.Wait()
	lock, work := e.hold(a, "k")
	for range 2 {
		faults.begin()
		good := faults.LastGood(OpRenew)
		e.until(2*e.ttl, "renewed by a new connection", func() bool { return faults.LastGood(OpRenew).After(good) || lock.Err() != nil })
		if lock.Err() != nil || work.Err() != nil {
			e.Fatalf("connections that lead nowhere cost the lease: %v", lock.Err())
		}
	}
	e.ok(lock.Release(), "release")
	e.free(e.locker(), "k", e.slack)
}

// retryBatch: what nobody can say of one lease delays no other, and loses nothing.
func retryBatch(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	var locks []*dibs.Lock
	for _, key := range []string{"a", "k", "z"} {
		lock, _ := e.hold(a, key)
		locks = append(locks, lock)
	}
	faults.On(OpRenew, func(n int, c *Call) bool { return n <= 1 }, Answer("k", dibsdriver.Unknown))
	e.throughout(2*e.ttl, "all are held", func() bool {
		return locks[0].Err() == nil && locks[1].Err() == nil && locks[2].Err() == nil
	})
	for _, lock := range locks {
		e.ok(lock.Release(), "release")
	}
}

// renewalRefused: asking again will not help, somebody has to hear of it at once; but the lease lives on as long as it was trusted.
func renewalRefused(fault Fault) func(e *env) {
	return func(e *env) {
		var refused atomic.Int32
		a, faults := e.faultyLocker(dibs.Config{Events: dibs.Events{RenewalRefused: func(ev dibs.Event) {
			if ev.Key == "k" {
				refused.Add(1)
			}
		}}})
		lock, work := e.hold(a, "k")
		good := faults.LastGood(OpAcquire)
		end := ending(work)
		faults.On(OpRenew, Always, fault)
		e.until(e.ttl/3+e.slack, "the refusal is told", func() bool { return refused.Load() > 0 })
		if e.exact && lock.Err() != nil {
			e.Errorf("a refused renewal ended a good lease: %v", lock.Err())
		}
		e.window(good, e.ended(end, 10*time.Second))
		e.is(lock.Release(), dibs.ErrLost, "release")
	}
}
