package dibsdrivertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dibs-go/dibs"
)

// An acquire whose answer is lost: B11. The leases are long, so that only a take-back can free the key in time.
var ambiguousCases = []testcase{
	{name: "S5/B11/answer_dropped", run: ambiguous(DropReply()), needs: freeTTL},
	{name: "S5/B11/answer_swallowed", run: ambiguous(HoleReply()), needs: freeTTL},
	{name: "S5/B11/applied_after_the_caller_has_gone", run: ambiguous(Late(2 * time.Second)), needs: freeTTL},
	{name: "S5/B11/applied_late_and_then_asked_for", run: ambiguousLate, needs: freeTTL},
	{name: "S5/B11/stalled_until_the_store_is_back", run: ambiguousStall, needs: freeTTL},
	{name: "S5/B11/try_answer_dropped", run: ambiguousTry, needs: freeTTL},
	{name: "S5/B11/wire_swallows_the_answer", run: ambiguousOnWire((*Proxy).HoleReplies), needs: freeTTL | networked},
	{name: "S5/B11/wire_cuts_the_answer", run: ambiguousOnWire(answerThenCut), needs: freeTTL | networked},
	{name: "S5/B11/wire_delays_the_answer", run: ambiguousOnWire(func(p *Proxy) { p.Delay(0, 2*time.Second) }), needs: freeTTL | networked},
	{name: "S5/B11/wire_delays_the_request", run: ambiguousLateOnWire(func(p *Proxy) { p.Delay(1500*time.Millisecond, 0) }), needs: freeTTL | networked},
	{name: "S5/B11/wire_stalls", run: ambiguousLateOnWire((*Proxy).Stall), needs: freeTTL | networked},
	{name: "S5/late_success_goes_to_the_next", run: lateSuccess, needs: freeTTL},
	{name: "S5/owner_is_sent_once", run: ownerOnce},
	{name: "S5/slower_than_its_window", run: slowAcquire},
	{name: "S5/not_applied_needs_no_take_back", run: notApplied},
}

const longTTL = 60 * time.Second

// unknown requires what a caller is told whose request may have been applied: never "busy".
func (e *env) unknown(err error, doing string) {
	e.Helper()
	e.is(err, dibs.ErrUnavailable, doing)
	e.isNot(err, dibs.ErrBusy, doing)
}

// ambiguous: the first acquire goes wrong and its caller gives up after a second; everything is well after that.
func ambiguous(fault Fault) func(e *env) {
	return func(e *env) {
		a, faults := e.faultyLocker(dibs.Config{TTL: longTTL})
		b := e.lockerWith(dibs.Config{TTL: longTTL})
		faults.On(OpAcquire, Nth(1), fault)
		ctx, cancel := context.WithTimeout(e.Context(), time.Second)
		defer cancel()
		_, _, err := a.Acquire(ctx, "k")
		e.unknown(err, "acquire")
		if ctx.Err() != nil {
			e.is(err, context.DeadlineExceeded, "acquire")
		}
		lock, _, err := b.Acquire(e.Context(), "k", dibs.MaxWait(3*time.Second))
		if err != nil {
			e.Fatalf("the key is not free within 3 s: %v", err)
		}
		// What takes the first one back touches nothing of the second.
		e.throughout(e.ttl, "the next holder has the key", func() bool { return lock.Err() == nil && e.store.Peek(e, "k").Held })
		e.ok(lock.Verify(e.Context()), "the next holder asks")
		e.ok(lock.Release(), "the next holder's release")
		e.free(a, "k", 10*time.Second) // the line may still be waiting for the first answer
	}
}

// ambiguousLate: the others come when the late request has just taken the key for nobody.
func ambiguousLate(e *env) {
	a, faults := e.faultyLocker(dibs.Config{TTL: longTTL})
	b := e.lockerWith(dibs.Config{TTL: longTTL})
	faults.On(OpAcquire, Nth(1), Late(1500*time.Millisecond))
	ctx, cancel := context.WithTimeout(e.Context(), time.Second)
	defer cancel()
	_, _, err := a.Acquire(ctx, "k")
	e.unknown(err, "acquire")
	e.until(10*time.Second, "the late request is applied", func() bool { // or even taken back already
		l := e.store.Peek(e, "k")
		return l.Held || l.Token > 0
	})
	e.free(b, "k", 3*time.Second)
}

// ambiguousStall: the request arrives when the store comes back, long after its caller's and its own time.
func ambiguousStall(e *env) {
	a, faults := e.faultyLocker(dibs.Config{TTL: longTTL, RequestTimeout: time.Second})
	b := e.lockerWith(dibs.Config{TTL: longTTL})
	faults.On(OpAcquire, Nth(1), Stall())
	began := time.Now()
	_, _, err := a.Acquire(e.Context(), "k")
	e.took(began, time.Second, time.Second+100*time.Millisecond, "an acquire without an answer")
	e.unknown(err, "acquire")
	time.Sleep(e.ttl)
	faults.Heal()
	e.until(3*time.Second, "the key is taken back", func() bool { return !e.store.Peek(e, "k").Held })
	e.free(b, "k", 3*time.Second)
}

func ambiguousTry(e *env) {
	a, faults := e.faultyLocker(dibs.Config{TTL: longTTL})
	b := e.lockerWith(dibs.Config{TTL: longTTL})
	faults.On(OpAcquire, Nth(1), DropReply())
	_, _, err := a.TryAcquire(e.Context(), "k")
	e.unknown(err, "try")
	ran, err := a.TryDo(e.Context(), "k", func(context.Context) error { return nil })
	if !ran && err == nil {
		e.Log("our own leftover was still there: busy") // true enough: somebody has the key
	}
	e.free(b, "k", 3*time.Second)
}

// lateSuccess: the line owns the request, not the caller. Whoever is next gets what it brings, without another word to the store.
func lateSuccess(e *env) {
	a, faults := e.faultyLocker(dibs.Config{TTL: longTTL})
	faults.On(OpAcquire, Nth(1), Delay(600*time.Millisecond, 0))
	ctx, cancel := context.WithCancel(e.Context())
	gone := make(chan error, 1)
	go func() {
		_, _, err := a.Acquire(ctx, "k")
		gone <- err
	}()
	time.Sleep(100 * time.Millisecond)
	next := make(chan error, 1)
	go func() {
		lock, _, err := a.Acquire(e.Context(), "k", dibs.MaxWait(10*time.Second))
		if err == nil {
			err = lock.Verify(e.Context())
		}
		next <- errors.Join(err, lock.Release())
	}()
	time.Sleep(100 * time.Millisecond)
	cancel()
	err := receive(e, gone)
	e.is(err, context.Canceled, "the caller that gave up")
	e.unknown(err, "the caller that gave up")
	e.ok(receive(e, next), "the next in line")
	if n := faults.Calls(OpAcquire); n != 1 {
		e.Errorf("%d acquires, the first brought the key", n)
	}
}

// ownerOnce: a request that was sent again with the same owner could take the key after it was taken back.
func ownerOnce(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	var mu sync.Mutex
	sent := make(map[string]int)
	faults.On(OpAcquire, Always, func(c *Call) error {
		mu.Lock()
		sent[c.Owner]++
		fail := len(sent)%2 == 1
		mu.Unlock()
		if fail {
			return DropReply()(c)
		}
		return c.Apply(c.Ctx)
	})
	for range 20 {
		if lock, _, err := a.Acquire(e.Context(), "k", dibs.MaxWait(10*time.Second)); err == nil {
			e.ok(lock.Release(), "release")
		} else {
			e.unknown(err, "acquire")
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for owner, n := range sent {
		if n != 1 || owner == "" {
			e.Errorf("owner %q was sent %d times", owner, n)
		}
	}
}

// slowAcquire: an acquisition that took longer than it can be trusted is taken back.
func slowAcquire(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	b := e.locker()
	faults.On(OpAcquire, Nth(1), Delay(0, e.ttl-e.margin()/2))
	_, _, err := a.Acquire(e.Context(), "k")
	e.unknown(err, "acquire")
	e.free(b, "k", 3*time.Second)
}

func notApplied(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	faults.On(OpAcquire, Nth(1), FailBefore(errAwayNotApplied))
	_, _, err := a.Acquire(e.Context(), "k")
	e.unknown(err, "acquire")
	time.Sleep(e.ttl)
	if n := faults.Calls(OpRelease); n != 0 {
		e.Errorf("%d releases of what was not taken", n)
	}
	e.free(a, "k", e.slack)
}
