package dibsdrivertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dibs-go/dibs"
)

var givingBackCases = []testcase{
	{name: "S6/B19/release_on_a_dead_context", run: releaseDead},
	{name: "S6/B19/B21/release_when_store_fails", run: releaseOutage(inMoves(FailBefore(errAway))), needs: freeTTL},
	{name: "S6/B19/B21/release_when_store_swallows", run: releaseOutage(inMoves(Hole())), needs: freeTTL},
	{name: "S6/B19/B21/release_when_store_hangs", run: releaseOutage(inMoves(Hang())), needs: freeTTL},
	{name: "S6/B19/B21/release_when_wire_is_cut", run: releaseOutage(onWire((*Proxy).Cut)), needs: freeTTL | networked},
	{name: "S6/B19/B21/release_when_wire_stalls", run: releaseOutage(onWire((*Proxy).Stall)), needs: freeTTL | networked},
	{name: "S6/B19/B21/release_when_wire_swallows", run: releaseOutage(onWire((*Proxy).Hole)), needs: freeTTL | networked},
	{name: "S6/B19/B21/release_on_a_forgotten_connection", run: releaseForgotten, needs: freeTTL | networked},
	{name: "S2/S6/release_answer_dropped", run: releaseDropped(DropReply()), needs: freeTTL},
	{name: "S2/S6/release_answer_swallowed", run: releaseDropped(HoleReply()), needs: freeTTL},
	{name: "S2/S6/release_answer_cut_on_the_wire", run: releaseDroppedOnWire(answerThenCut), needs: freeTTL | networked},
	{name: "S2/S6/release_answer_swallowed_on_the_wire", run: releaseDroppedOnWire((*Proxy).HoleReplies), needs: freeTTL | networked},
	{name: "S6/release_twice", run: releaseAgain},
	{name: "S6/release_at_once_by_many", run: releaseByMany},
	{name: "S6/B06/release_before_a_renewal_answers", run: releaseInRenewal(Delay(0, 300*time.Millisecond))},
	{name: "S6/B06/release_before_a_renewal_arrives", run: releaseInRenewal(Delay(300*time.Millisecond, 0))},
	{name: "S6/B06/release_during_outage_stops_renewal", run: releaseStopsRenewal},
	{name: "S6/B06/fast_rounds", run: releaseFast},
	{name: "S6/B21/own_leftover_does_not_block", run: ownLeftover(inMoves(FailBefore(errAway))), needs: freeTTL},
	{name: "S6/B21/own_leftover_of_a_cut_wire_does_not_block", run: ownLeftover(onWire((*Proxy).Cut)), needs: freeTTL | networked},
}

func releaseDead(e *env) {
	a, b := e.locker(), e.locker()
	ctx, cancel := context.WithCancel(e.Context())
	lock, _, err := a.Acquire(ctx, "k")
	e.ok(err, "acquire")
	cancel()
	e.ok(lock.Release(), "release")
	lock, _, err = b.TryAcquire(e.Context(), "k")
	e.ok(err, "the next try")
	e.ok(lock.Release(), "release")

	ctx, cancel = context.WithCancel(e.Context())
	err = a.Do(ctx, "k", func(ctx context.Context) error {
		cancel()
		return ctx.Err()
	})
	e.is(err, context.Canceled, "do")
	lock, _, err = b.TryAcquire(e.Context(), "k")
	e.ok(err, "the next try")
	e.ok(lock.Release(), "release")
}

// releaseOutage: the release returns in time and says so, and goes on by itself: the key is free soon after the store is back, not at the
// end of a long lease.
func releaseOutage(tr trouble) func(e *env) {
	return func(e *env) {
		const timeout = time.Second
		a, faults := e.linked(dibs.Config{TTL: longTTL, RequestTimeout: timeout}, tr)
		b := e.lockerWith(dibs.Config{TTL: longTTL})
		lock, work := e.hold(a, "k")
		faults.begin()
		began := time.Now()
		err := lock.Release()
		e.took(began, 0, timeout+50*time.Millisecond, "release")
		e.is(err, dibs.ErrUnavailable, "release")
		e.isNot(err, dibs.ErrLost, "release")
		e.is(lock.Release(), dibs.ErrReleased, "the second release")
		if work.Err() == nil {
			e.Error("the work's context did not end with the release")
		}
		time.Sleep(e.ttl)
		if n := faults.Calls(OpRenew); n != 0 {
			e.Errorf("%d renewals", n)
		}
		faults.Heal()
		e.free(b, "k", 2*time.Second+e.slack)
	}
}

// releaseDropped: the request was applied and the store has nothing of ours any more; that must not look like a loss.
func releaseDropped(fault Fault) func(e *env) {
	return func(e *env) {
		a, faults := e.faultyLocker(dibs.Config{TTL: longTTL, RequestTimeout: time.Second})
		b := e.lockerWith(dibs.Config{TTL: longTTL})
		for range 3 {
			lock, _ := e.hold(a, "k")
			faults.On(OpRelease, Nth(1), fault)
			err := lock.Release()
			e.isNot(err, dibs.ErrLost, "release")
			if err != nil {
				e.is(err, dibs.ErrUnavailable, "release")
			}
			e.free(b, "k", e.slack)
			faults.Heal()
			e.free(a, "k", e.slack)
		}
	}
}

// releaseDroppedOnWire: the same by a real connection.
func releaseDroppedOnWire(spoil func(*Proxy)) func(e *env) {
	return func(e *env) {
		a, wire := e.linked(dibs.Config{TTL: longTTL, RequestTimeout: time.Second}, onWire(spoil))
		b := e.lockerWith(dibs.Config{TTL: longTTL})
		for range 3 {
			lock, _ := e.hold(a, "k")
			wire.begin()
			err := lock.Release()
			e.is(err, dibs.ErrUnavailable, "release")
			e.isNot(err, dibs.ErrLost, "release")
			e.free(b, "k", e.slack)
			wire.Heal()
			e.free(a, "k", e.slack)
		}
	}
}

// releaseForgotten: a release by a connection that leads nowhere is repeated by another one; the key is not left to a long lease.
func releaseForgotten(e *env) {
	a, wire := e.linked(dibs.Config{TTL: longTTL, RequestTimeout: time.Second}, onWire((*Proxy).Forget))
	b := e.lockerWith(dibs.Config{TTL: longTTL})
	lock, _ := e.hold(a, "k")
	wire.begin()
	if err := lock.Release(); err != nil {
		e.is(err, dibs.ErrUnavailable, "release")
	}
	e.free(b, "k", 5*time.Second)
}

func releaseAgain(e *env) {
	a, b := e.locker(), e.locker()
	lock, _ := e.hold(a, "k")
	e.ok(lock.Release(), "release")
	next, _ := e.hold(b, "k")
	e.is(lock.Release(), dibs.ErrReleased, "the second release")
	e.is(lock.Err(), dibs.ErrReleased, "the lock")
	e.is(lock.Verify(e.Context()), dibs.ErrReleased, "verify")
	e.ok(next.Verify(e.Context()), "the next holder asks")
	e.ok(next.Release(), "release")

	lock, _ = e.hold(a, "k")
	lost := e.holdBroken(a, b, "k", lock)
	e.is(lost, dibs.ErrLost, "release of a broken lock")
	e.is(lock.Release(), dibs.ErrReleased, "and again")
}

// holdBroken breaks a lock before its holder releases it, and returns what the release says.
func (e *env) holdBroken(a, b *dibs.Locker, key string, lock *dibs.Lock) error {
	_, err := b.BreakNow(e.Context(), key, lock.Token())
	e.ok(err, "break")
	return lock.Release()
}

func releaseByMany(e *env) {
	lock, _ := e.hold(e.locker(), "k")
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		wg.Go(func() { errs[i] = lock.Release() })
	}
	wg.Wait()
	done := 0
	for _, err := range errs {
		if err == nil {
			done++
		} else {
			e.is(err, dibs.ErrReleased, "release")
		}
	}
	if done != 1 {
		e.Errorf("%d releases succeeded", done)
	}
}

// releaseInRenewal: a renewal that is under way when the lock is released must not bring it back.
func releaseInRenewal(fault Fault) func(e *env) {
	return func(e *env) {
		a, faults := e.faultyLocker(dibs.Config{})
		b := e.locker()
		for range 3 {
			lock, _ := e.hold(a, "k")
			rule := faults.On(OpRenew, Nth(1), fault)
			e.until(e.ttl+e.slack, "a renewal is under way", func() bool { return rule.Hits() > 0 })
			e.ok(lock.Release(), "release")
			next, _, err := b.TryAcquire(e.Context(), "k")
			e.ok(err, "the next try")
			time.Sleep(400 * time.Millisecond)
			e.ok(next.Verify(e.Context()), "the next holder asks")
			e.ok(next.Release(), "release")
			if l := e.store.Peek(e, "k"); l.Held {
				e.Errorf("released, and %+v", l)
			}
		}
	}
}

func releaseStopsRenewal(e *env) {
	a, faults := e.faultyLocker(dibs.Config{RequestTimeout: 500*time.Millisecond + e.f.trips(10)})
	b := e.locker()
	lock, _ := e.hold(a, "k")
	faults.On(OpRelease, Always, FailBefore(errAway)) // and renewals would work
	e.is(lock.Release(), dibs.ErrUnavailable, "release")
	calls := faults.Calls(OpRenew)
	e.free(b, "k", e.ttl+e.slack)
	time.Sleep(2 * e.ttl)
	if n := faults.Calls(OpRenew); n != calls {
		e.Errorf("%d renewals after the release", n-calls)
	}
}

// releaseFast: a release that overtakes the start of the renewal.
func releaseFast(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	rounds := 16
	if e.exact {
		rounds = 100
	}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range rounds {
				err := a.Do(e.Context(), fmt.Sprint("k", i), func(context.Context) error { return nil })
				// A lease that a loaded machine lost by itself is not what this is about.
				if err != nil && !errors.Is(err, dibs.ErrUnavailable) && !errors.Is(err, dibs.ErrLost) {
					e.Errorf("do: %v", err)
				}
			}
		})
	}
	wg.Wait()
	e.until(e.ttl+e.slack, "all keys are free", func() bool {
		for i := range 16 {
			if e.store.Peek(e, fmt.Sprint("k", i)).Held {
				return false
			}
		}
		return true
	})
	calls := faults.Calls(OpRenew)
	time.Sleep(e.ttl)
	if n := faults.Calls(OpRenew); n != calls {
		e.Errorf("%d renewals after all was released", n-calls)
	}
}

// ownLeftover: a client whose release failed must not wait for its own lease, while other locks keep its session alive.
func ownLeftover(tr trouble) func(e *env) {
	return func(e *env) {
		a, faults := e.linked(dibs.Config{TTL: longTTL, RequestTimeout: e.patience(500 * time.Millisecond)}, tr)
		other, _ := e.hold(a, "other")
		lock, _ := e.hold(a, "k")
		faults.begin()
		e.is(lock.Release(), dibs.ErrUnavailable, "release")
		time.Sleep(2 * time.Second)
		faults.Heal()
		e.free(a, "k", 2*time.Second+e.slack)
		e.ok(other.Release(), "release")
	}
}
