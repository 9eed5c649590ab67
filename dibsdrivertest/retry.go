package dibsdrivertest

import (
	"errors"
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
	{name: "L4/B03/store_away_for_half_a_window", run: retryOutage},
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

func retryOutage(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	lock, work := e.hold(a, "k")
	for range 3 {
		time.Sleep(e.ttl/3 - 20*time.Millisecond)
		faults.OnAll(FailBefore(errAway))
		time.Sleep(2 * e.ttl / 5)
		faults.Heal()
		good := faults.LastGood(OpRenew)
		e.until(e.ttl+e.slack, "renewed after the outage", func() bool { return faults.LastGood(OpRenew).After(good) })
	}
	if lock.Err() != nil || work.Err() != nil {
		e.Errorf("an outage of less than half a trust window cost the lease: %v", lock.Err())
	}
	e.ok(lock.Release(), "release")
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
		e.window(e.ended(end, 10*time.Second).Sub(good))
		e.is(lock.Release(), dibs.ErrLost, "release")
	}
}
