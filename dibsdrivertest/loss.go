package dibsdrivertest

import (
	"context"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

var lossCases = []testcase{
	{name: "S3/B01/store_fails", run: lossBy(inMoves(FailBefore(errAway)))},
	{name: "S3/B01/store_swallows_requests", run: lossBy(inMoves(Hole()))},
	{name: "S3/B01/store_swallows_answers", run: lossBy(inMoves(HoleReply()))},
	{name: "S3/B01/store_drops_answers", run: lossBy(inMoves(DropReply()))},
	{name: "S3/B01/store_hangs_deaf_to_contexts", run: lossBy(inMoves(Hang()))},
	{name: "S3/B01/store_answers_late", run: lossBy(inMoves(Delay(0, 3*time.Second)))},
	{name: "S3/B01/requests_arrive_late", run: lossBy(inMoves(Late(3 * time.Second)))},
	{name: "S3/B01/answers_are_unknown", run: lossBy(inMoves(func(c *Call) error {
		if c.Op == OpRenew {
			c.Answers = make([]dibsdriver.RenewAnswer, len(c.Keys))
			return nil
		}
		return errAway
	}))},
	{name: "S3/B01/wire_cut", run: lossBy(onWire((*Proxy).Cut)), needs: networked},
	{name: "S3/B01/wire_stalls", run: lossBy(onWire((*Proxy).Stall)), needs: networked},
	{name: "S3/B01/wire_swallows_all", run: lossBy(onWire((*Proxy).Hole)), needs: networked},
	{name: "S3/B01/wire_swallows_answers", run: lossBy(onWire((*Proxy).HoleReplies)), needs: networked},
	{name: "S3/B01/wire_delays_answers", run: lossBy(slowWire(0, 3*time.Second)), needs: networked},
	{name: "S3/B01/wire_delays_requests", run: lossBy(slowWire(3*time.Second, 0)), needs: networked},
	{name: "S3/B01/store_hangs_for_all", run: lossByBlock, needs: blocks},
	{name: "S3/B47/row_removed", run: lossByRemoval, needs: removesRow},
	{name: "S3/store_says_lost", run: lossByAnswer},
	{name: "S3/trust_window", run: trustWindow},
	{name: "S3/trust_counts_from_the_request", run: trustFromRequest},
	{name: "S3/parent_context_ends_first", run: parentEnds},
}

// lossBy takes the store away from a holder, in one of the ways in which stores go away, while another waits with a good
// connection. A timer of the holder's own has to end its work: no answer will.
func lossBy(tr trouble) func(e *env) {
	return func(e *env) {
		a, faults := e.linked(dibs.Config{RequestTimeout: 2 * time.Second}, tr)
		b := e.locker()
		lock, work := e.hold(a, "k")
		good := faults.LastGood(OpAcquire)
		end := ending(work)
		faults.begin()

		next := e.waits(b, "k")

		at := e.ended(end, 30*time.Second)
		e.window(good, at)
		e.is(context.Cause(work), dibs.ErrLost, "the work's context")
		e.is(lock.Err(), dibs.ErrLost, "the lock")
		if lock.Remaining() != 0 {
			e.Errorf("trusted for another %s", lock.Remaining())
		}
		n := e.got(next, 40*time.Second)
		if !at.Before(n.at) {
			e.Errorf("the work's context ended %s after another had the key", at.Sub(n.at))
		}
		released := time.Now()
		e.is(lock.Release(), dibs.ErrLost, "the late release")
		e.took(released, 0, 2*time.Second, "the late release")
		faults.Heal()
		e.throughout(e.ttl/2, "the next holder has the key", func() bool { return n.lock.Err() == nil && e.store.Peek(e, "k").Held })
		e.ok(n.lock.Verify(e.Context()), "the next holder asks")
		e.ok(n.lock.Release(), "the next holder's release")
	}
}

// window requires that trust ended when the window after the last good request did: not before, or a good lease was thrown away; and before the store may
// give the key away.
func (e *env) window(good, at time.Time) {
	e.Helper()
	d, trusted := at.Sub(good), e.ttl-e.margin()
	// On a loaded machine the start of the request may be seen late, and so may the end. That the end comes before another has the
	// key is looked at everywhere all the same.
	early, late := trusted-500*time.Millisecond, e.ttl+e.busyFor(good)
	if e.exact {
		early, late = trusted-time.Millisecond, trusted+time.Millisecond
	}
	if d < early || d > late {
		e.Errorf("trusted for %s after the last good request, want %s (TTL %s)", d, trusted, e.ttl)
	}
}

func lossByBlock(e *env) {
	a := e.lockerWith(dibs.Config{RequestTimeout: 2 * time.Second})
	b := e.locker()
	before := time.Now()
	_, work := e.hold(a, "k")
	end := ending(work)
	unblock := e.store.(Blocker).Block(e)
	next := make(chan time.Time, 1)
	go func() {
		// The first contact may fail while the store hangs.
		for e.Context().Err() == nil {
			if _, _, err := b.Acquire(e.Context(), "k", dibs.MaxWait(20*time.Second)); err == nil {
				break
			}
		}
		next <- time.Now()
	}()
	at := e.ended(end, 10*time.Second)
	unblock()
	// Renewals may have got through before the store hung.
	if d := at.Sub(before); d > e.ttl+e.ttl/3+e.slack {
		e.Errorf("the store hung, and the work was told after %s", d)
	}
	e.is(context.Cause(work), dibs.ErrLost, "the work's context")
	if n := receive(e, next); !at.Before(n) {
		e.Errorf("the work's context ended %s after another had the key", at.Sub(n))
	}
}

// telling is a TTL for cases in which a renewal's answer tells of a loss: so long that it is not taken for the end of the trust window, which would tell
// of the loss as well, however slow the machine is.
func (e *env) telling() time.Duration {
	if e.exact || e.f.session(e) {
		return e.ttl
	}
	return max(e.ttl, 12*time.Second)
}

// toldByRenewal requires that the work under a lock was told of what happened to its lease by the next renewal.
func (e *env) toldByRenewal(end <-chan time.Time, began time.Time) time.Time {
	e.Helper()
	at := e.ended(end, e.telling()+e.slack)
	if d, due := at.Sub(began), e.telling()/3; d > due+min(e.slack, e.soon(300*time.Millisecond, began)) {
		e.Errorf("told after %s, the next renewal was due within %s", d, due)
	}
	return at
}

// lossByRemoval: the next renewal finds the loss, and does not set the key again.
func lossByRemoval(e *env) {
	a := e.lockerWith(dibs.Config{TTL: e.telling()})
	lock, work := e.hold(a, "k")
	end := ending(work)
	began := time.Now()
	e.store.(RowRemover).RemoveRow(e, "k")
	e.toldByRenewal(end, began)
	e.is(context.Cause(work), dibs.ErrLost, "the work's context")
	if e.store.Peek(e, "k").Held {
		e.Error("the removed key was set again")
	}
	e.is(lock.Release(), dibs.ErrLost, "release")
}

func lossByAnswer(e *env) {
	lost := make(chan dibs.Event, 1)
	a, faults := e.faultyLocker(dibs.Config{TTL: e.telling(), Events: dibs.Events{Lost: func(ev dibs.Event) { lost <- ev }}})
	lock, work := e.hold(a, "k")
	end := ending(work)
	began := time.Now()
	faults.On(OpRenew, Always, Answer("k", dibsdriver.Lost))
	e.toldByRenewal(end, began)
	e.is(context.Cause(work), dibs.ErrLost, "the work's context")
	if ev := receive(e, lost); ev.Key != "k" || ev.Token != lock.Token() {
		e.Errorf("the event is %+v", ev)
	}
	calls := faults.Calls(OpRenew)
	time.Sleep(e.telling() / 2) // the next would be due
	if n := faults.Calls(OpRenew); n != calls {
		e.Errorf("%d renewals after the loss", n-calls)
	}
}

func trustWindow(e *env) {
	a := e.locker()
	lock, work := e.hold(a, "k")
	most := e.ttl - e.margin()
	moved := 0
	last := lock.Remaining()
	for end := time.Now().Add(2 * e.ttl); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		left := lock.Remaining()
		if left > most || left <= 0 || lock.Err() != nil || work.Err() != nil {
			e.Fatalf("trusted for %s (at most %s are possible): %v, %v", left, most, lock.Err(), work.Err())
		}
		if left > last {
			moved++
		}
		last = left
	}
	if moved < 3 {
		e.Errorf("renewed %d times in two TTLs", moved)
	}
	e.ok(lock.Release(), "release")
	e.is(context.Cause(work), dibs.ErrReleased, "the work's context after the release")
	if lock.Remaining() != 0 {
		e.Error("trusted after the release")
	}
}

// parentEnds: the work's context ends with the caller's; the lock does not, until it is released.
func parentEnds(e *env) {
	a, b := e.locker(), e.locker()
	ctx, cancel := context.WithCancel(e.Context())
	lock, work, err := a.Acquire(ctx, "k")
	e.ok(err, "acquire")
	cancel()
	e.is(context.Cause(work), context.Canceled, "the work's context")
	e.throughout(2*e.ttl, "held after the caller's context ended", func() bool { return lock.Err() == nil && e.store.Peek(e, "k").Held })
	e.busy(b, "k")
	e.ok(lock.Release(), "release")
	e.free(b, "k", e.slack)
}

// trustFromRequest: the store counts from when it had the request, which was before its answer came.
func trustFromRequest(e *env) {
	a, faults := e.faultyLocker(dibs.Config{RequestTimeout: 2 * time.Second})
	faults.On(OpAcquire, Nth(1), Delay(0, e.ttl/2))
	faults.On(OpRenew, Always, FailBefore(errAway))
	_, work := e.hold(a, "acquired slowly")
	at := e.ended(ending(work), 10*time.Second)
	e.window(faults.LastGood(OpAcquire), at)
	faults.Heal()

	for range 5 { // a busy machine may let the renewal come too late to be of use
		_, work = e.hold(a, "renewed slowly")
		faults.On(OpRenew, Always, FailBefore(errAway))
		faults.On(OpRenew, Nth(1), Delay(0, 2*e.ttl/5))
		at = e.ended(ending(work), 10*time.Second)
		if good := faults.LastGood(OpRenew); !good.IsZero() {
			e.window(good, at)
			return
		}
		faults.Heal()
		e.free(e.locker(), "renewed slowly", e.ttl+e.slack)
	}
	e.Error("no slow renewal succeeded in time")
}
