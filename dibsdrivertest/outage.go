package dibsdrivertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-go/dibs"
)

var outageCases = []testcase{
	{name: "L6/first_contact_fails_at_once", run: firstContact(inMoves(FailBefore(errAway)))},
	{name: "L6/first_contact_by_a_cut_wire_fails_at_once", run: firstContact(onWire((*Proxy).Cut)), needs: networked},
	{name: "L6/waiters_sit_an_outage_out", run: sitOut(inMoves(FailBefore(errAway)))},
	{name: "L6/waiters_sit_a_silence_out", run: sitOut(inMoves(Hole()))},
	{name: "L6/waiters_sit_a_cut_wire_out", run: sitOut(onWire((*Proxy).Cut)), needs: networked},
	{name: "L6/waiters_sit_a_stalled_wire_out", run: sitOut(onWire((*Proxy).Stall)), needs: networked},
	{name: "L6/waiters_sit_a_black_hole_out", run: sitOut(onWire((*Proxy).Hole)), needs: networked},
	{name: "L6/waiters_of_forgotten_connections", run: forgottenWaiters, needs: networked},
	{name: "L6/200_waiters_share_an_outage", run: shareOutage(inMoves(FailBefore(errAway)))},
	{name: "L6/200_waiters_share_a_silence", run: shareOutage(inMoves(Hang()))},
	{name: "L6/200_waiters_share_a_cut_wire", run: shareOutage(onWire((*Proxy).Cut)), needs: networked},
	{name: "L6/200_waiters_share_a_stalled_wire", run: shareOutage(onWire((*Proxy).Stall)), needs: networked},
	{name: "L6/200_newcomers_share_a_silence", run: shareFirstContact(inMoves(Hang()))},
	{name: "L6/200_newcomers_share_a_stalled_wire", run: shareFirstContact(onWire((*Proxy).Stall)), needs: networked},
	{name: "L6/outage_is_asked_gently", run: gentle(inMoves(FailBefore(errAway)))},
	{name: "L6/cut_wire_is_asked_gently", run: gentle(onWire((*Proxy).Cut)), needs: networked},
	{name: "L6/refusal_ends_the_wait", run: refusalEnds},
}

func firstContact(tr trouble) func(e *env) {
	return func(e *env) {
		faults := e.link(tr)
		a := e.lockerOn(faults.Driver(), dibs.Config{})
		e.Cleanup(faults.Heal)
		faults.begin()
		began := time.Now()
		_, _, err := a.Acquire(e.Context(), "k")
		e.promptly(began, "the first contact")
		e.unknown(err, "acquire")
		if tr.moves != nil {
			e.is(err, errInjected, "acquire") // the cause is not hidden
		}
		e.is(a.Ping(e.Context()), dibs.ErrUnavailable, "ping")
		_, err = a.Locks(e.Context(), "")
		e.is(err, dibs.ErrUnavailable, "locks")
		faults.Heal()
		e.free(a, "k", 3*time.Second+e.slack)
	}
}

// sitOut: after one good answer a waiter waits through an outage, and has the key soon after it.
func sitOut(tr trouble) func(e *env) {
	return func(e *env) {
		a, faults := e.linked(dibs.Config{RequestTimeout: e.patience(500 * time.Millisecond)}, tr)
		b := e.locker()
		held, _ := e.hold(b, "k")
		next := e.waitsInLine(a, faults, "k")
		time.Sleep(50 * time.Millisecond)
		faults.begin()
		time.Sleep(3 * e.ttl)
		e.ok(held.Release(), "release")
		if len(next) > 0 {
			n := <-next
			e.Fatalf("the waiter did not sit the outage out: %v", n.err)
		}
		faults.Heal()
		n := e.got(next, 2*time.Second+2*e.slack) // the outage was asked for once a second, and a last question may hang
		e.ok(n.lock.Release(), "release")
	}
}

// shareOutage: the waiters' time runs together, not one after another.
func shareOutage(tr trouble) func(e *env) {
	return func(e *env) {
		a, faults := e.linked(dibs.Config{RequestTimeout: e.patience(time.Second)}, tr)
		b := e.locker()
		held, _ := e.hold(b, "k")
		var wg sync.WaitGroup
		began := time.Now()
		wait := 6 * time.Second
		var wrong atomic.Int32
		var last atomic.Pointer[string]
		for range 200 {
			wg.Go(func() {
				_, _, err := a.Acquire(e.Context(), "k", dibs.MaxWait(wait))
				if d := time.Since(began); d < wait || d > wait+e.slack || !errors.Is(err, dibs.ErrUnavailable) {
					wrong.Add(1)
					last.Store(new(fmt.Sprintf("waited %s of %s, and was told: %v", d, wait, err)))
				}
			})
		}
		faults.answersAll(e)
		faults.begin()
		wg.Wait()
		if n := wrong.Load(); n > 0 {
			e.Errorf("%d waiters of an outage went wrong, and the last of them %s", n, *last.Load())
		}
		faults.Heal()
		e.ok(held.Release(), "release")
		e.free(b, "k", 4*time.Second)
		e.free(a, "k", 4*time.Second)
	}
}

// waitsInLine is waits for a wait whose first question has been answered. On a loaded machine that may take a second try.
func (e *env) waitsInLine(l *dibs.Locker, faults *link, key string) <-chan taken {
	e.Helper()
	for range 10 {
		before := faults.LastGood(OpAcquire)
		next := e.waits(l, key)
		for len(next) == 0 {
			if faults.LastGood(OpAcquire).After(before) {
				return next
			}
			time.Sleep(2 * time.Millisecond)
		}
		if n := <-next; !errors.Is(n.err, dibs.ErrUnavailable) {
			e.Fatalf("waiting for a key that another holds: %v", n.err)
		}
	}
	e.Fatal("the store does not answer")
	return nil
}

// answersAll waits until the store has answered a question that was asked after all those who have just begun to wait were in line: the head asks once a
// second at the least.
func (l *link) answersAll(e *env) {
	e.Helper()
	time.Sleep(300 * time.Millisecond) // they join
	joined := time.Now()
	e.until(10*time.Second, "the store has answered for all waiters", func() bool { return l.LastGood(OpAcquire).After(joined) })
}

// shareFirstContact: nobody has had an answer yet, and the store is silent. One time-out is everybody's.
func shareFirstContact(tr trouble) func(e *env) {
	return func(e *env) {
		timeout := 700 * time.Millisecond
		faults := e.link(tr)
		a := e.lockerOn(faults.Driver(), dibs.Config{RequestTimeout: timeout})
		e.Cleanup(faults.Heal)
		faults.begin()
		began := time.Now()
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				_, _, err := a.Acquire(e.Context(), "k", dibs.MaxWait(time.Minute))
				if !errors.Is(err, dibs.ErrUnavailable) || errors.Is(err, dibs.ErrBusy) {
					e.Errorf("a waiter was told: %v", err)
				}
			})
		}
		wg.Wait()
		// Those who came when the first request was under way share the second.
		if d := time.Since(began); d > 2*timeout+e.slack {
			e.Errorf("200 newcomers were told after %s; a request may take %s", d, timeout)
		}
	}
}

// gentle: a store that is down is not hammered.
func gentle(tr trouble) func(e *env) {
	return func(e *env) {
		a, faults := e.linked(dibs.Config{}, tr)
		b := e.locker()
		held, _ := e.hold(b, "k")
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if err := a.Do(e.Context(), "k", func(context.Context) error { return nil }, dibs.MaxWait(2*time.Minute)); err != nil {
					e.Errorf("a waiter: %v", err)
				}
			})
		}
		faults.answersAll(e)
		faults.begin()
		before := faults.Calls(OpAcquire)
		time.Sleep(4 * time.Second)
		if n := faults.Calls(OpAcquire) - before; n < 3 || n > 25 {
			e.Errorf("50 waiters asked a store that is down %d times in 4 s", n)
		}
		faults.Heal()
		e.ok(held.Release(), "release")
		wg.Wait()
	}
}

// forgottenWaiters: those who wait by connections that lead nowhere find out, and have the key soon after it is free.
func forgottenWaiters(e *env) {
	a, faults := e.linked(dibs.Config{RequestTimeout: time.Second}, onWire((*Proxy).Forget))
	held, _ := e.hold(e.locker(), "k")
	before := faults.LastGood(OpAcquire)
	next := e.waits(a, "k")
	e.until(10*time.Second, "the store has answered once", func() bool { return faults.LastGood(OpAcquire).After(before) })
	faults.begin()
	time.Sleep(e.ttl)
	e.ok(held.Release(), "release")
	n := e.got(next, 4*time.Second+e.slack)
	e.ok(n.lock.Release(), "release")
}

// refusalEnds: waiting does not mend a missing table.
func refusalEnds(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	b := e.locker()
	held, _ := e.hold(b, "k")
	next := e.waits(a, "k")
	time.Sleep(200*time.Millisecond + e.f.trips(10))
	faults.OnAll(FailBefore(errRefused))
	select {
	case n := <-next:
		e.unknown(n.err, "the wait")
		e.is(n.err, errRefused, "the wait")
	case <-time.After(2 * time.Second):
		e.Error("the wait goes on although the store refuses")
	}
	e.ok(held.Release(), "release")
}
