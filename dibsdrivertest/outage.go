package dibsdrivertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dibs-go/dibs"
)

var outageCases = []testcase{
	{name: "L6/first_contact_fails_at_once", run: firstContact},
	{name: "L6/waiters_sit_an_outage_out", run: sitOut(FailBefore(errAway))},
	{name: "L6/waiters_sit_a_silence_out", run: sitOut(Hole())},
	{name: "L6/200_waiters_share_an_outage", run: shareOutage(FailBefore(errAway))},
	{name: "L6/200_waiters_share_a_silence", run: shareOutage(Hang())},
	{name: "L6/200_newcomers_share_a_silence", run: shareFirstContact},
	{name: "L6/outage_is_asked_gently", run: gentle},
	{name: "L6/refusal_ends_the_wait", run: refusalEnds},
}

func firstContact(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	faults.OnAll(FailBefore(errAway))
	began := time.Now()
	_, _, err := a.Acquire(e.Context(), "k")
	e.promptly(began, "the first contact")
	e.unknown(err, "acquire")
	e.is(err, errInjected, "acquire") // the cause is not hidden
	e.is(a.Ping(e.Context()), dibs.ErrUnavailable, "ping")
	_, err = a.Locks(e.Context(), "")
	e.is(err, dibs.ErrUnavailable, "locks")
	faults.Heal()
	e.free(a, "k", e.slack)
}

// sitOut: after one good answer a waiter waits through an outage, and has the key soon after it.
func sitOut(fault Fault) func(e *env) {
	return func(e *env) {
		a, faults := e.faultyLocker(dibs.Config{RequestTimeout: 500 * time.Millisecond})
		b := e.locker()
		held, _ := e.hold(b, "k")
		next := e.waits(a, "k")
		e.until(2*time.Second, "the store has answered once", func() bool { return !faults.LastGood(OpAcquire).IsZero() })
		time.Sleep(50 * time.Millisecond)
		faults.OnAll(fault)
		time.Sleep(3 * e.ttl)
		e.ok(held.Release(), "release")
		if len(next) > 0 {
			n := <-next
			e.Fatalf("the waiter did not sit the outage out: %v", n.err)
		}
		faults.Heal()
		n := e.got(next, 2*time.Second+e.slack) // the outage was asked for once a second
		e.ok(n.lock.Release(), "release")
	}
}

// shareOutage: the waiters' time runs together, not one after another.
func shareOutage(fault Fault) func(e *env) {
	return func(e *env) {
		a, faults := e.faultyLocker(dibs.Config{RequestTimeout: time.Second})
		b := e.locker()
		held, _ := e.hold(b, "k")
		var wg sync.WaitGroup
		began := time.Now()
		wait := 4 * time.Second
		for range 200 {
			wg.Go(func() {
				_, _, err := a.Acquire(e.Context(), "k", dibs.MaxWait(wait))
				if d := time.Since(began); d < wait || d > wait+e.slack {
					e.Errorf("a waiter waited %s of %s", d, wait)
				}
				if !errors.Is(err, dibs.ErrUnavailable) {
					e.Errorf("during an outage a waiter was told: %v", err)
				}
			})
		}
		time.Sleep(wait / 3) // the head asks once a second at the least: by now the store has answered for all of them
		faults.OnAll(fault)
		wg.Wait()
		faults.Heal()
		e.ok(held.Release(), "release")
		e.free(b, "k", 4*time.Second)
		e.free(a, "k", 4*time.Second)
	}
}

// shareFirstContact: nobody has had an answer yet, and the store is silent. One time-out is everybody's.
func shareFirstContact(e *env) {
	timeout := 700 * time.Millisecond
	a, faults := e.faultyLocker(dibs.Config{RequestTimeout: timeout})
	faults.OnAll(Hang())
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

// gentle: a store that is down is not hammered.
func gentle(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	b := e.locker()
	held, _ := e.hold(b, "k")
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if err := a.Do(e.Context(), "k", func(context.Context) error { return nil }, dibs.MaxWait(30*time.Second)); err != nil {
				e.Errorf("a waiter: %v", err)
			}
		})
	}
	time.Sleep(1300 * time.Millisecond) // the store has answered for all of them
	faults.OnAll(FailBefore(errAway))
	before := faults.Calls(OpAcquire)
	time.Sleep(4 * time.Second)
	if n := faults.Calls(OpAcquire) - before; n < 3 || n > 25 {
		e.Errorf("50 waiters asked a store that is down %d times in 4 s", n)
	}
	faults.Heal()
	e.ok(held.Release(), "release")
	wg.Wait()
}

// refusalEnds: waiting does not mend a missing table.
func refusalEnds(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	b := e.locker()
	held, _ := e.hold(b, "k")
	next := e.waits(a, "k")
	time.Sleep(200 * time.Millisecond)
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
