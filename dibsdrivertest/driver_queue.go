package dibsdrivertest

import (
	"context"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

var queueCases = []testcase{
	{name: "L3/driver_queue_in_order", run: queueOrder, needs: queues},
	{name: "L2/driver_queue_leave", run: queueLeave, needs: queues},
	{name: "L3/driver_queue_silent_waiter", run: queueSilent, needs: queues},
	{name: "L3/driver_queue_single_attempt_passes", run: queueSingle, needs: queues},
	{name: "L3/driver_wait_wakes", run: wakeOnRelease, needs: wakes},
	{name: "L2/driver_wait_ends_with_context", run: wakeContext, needs: wakes},
}

// asks is one question of a waiter, each by a new owner as the engine sends them. It returns the owner if it got the key.
func (e *env) asks(d dibsdriver.Driver, waiter string) (owner string, r dibsdriver.AcquireResult) {
	e.Helper()
	p := e.params("k")
	p.Waiter = waiter
	r, err := d.Acquire(e.Context(), p)
	e.ok(err, "acquire")
	if r.Acquired {
		return p.Owner, r
	}
	return "", r
}

func (e *env) gets(d dibsdriver.Driver, waiter string) (owner string) {
	e.Helper()
	owner, r := e.asks(d, waiter)
	if owner == "" {
		e.Fatalf("waiter %s did not get the key: %+v", waiter, r)
	}
	return owner
}

func (e *env) getsNot(d dibsdriver.Driver, waiter string) dibsdriver.AcquireResult {
	e.Helper()
	owner, r := e.asks(d, waiter)
	if owner != "" {
		e.Fatalf("waiter %s got the key", waiter)
	}
	return r
}

func (e *env) gives(d dibsdriver.Driver, owner string) {
	e.Helper()
	e.ok(d.Release(e.Context(), dibsdriver.ReleaseParams{Key: "k", Owner: owner}), "release")
}

func queueOrder(e *env) {
	a, b, c := e.driver(), e.driver(), e.driver()
	w1, w2, w3 := newOwner(), newOwner(), newOwner()
	holder := e.gets(a, "")
	e.getsNot(a, w1)
	e.getsNot(b, w2)
	e.getsNot(c, w3)
	e.gives(a, holder)
	if r := e.getsNot(c, w3); r.Holder.Token != 0 {
		e.Errorf("the key is free and others stand first, but the answer is %+v", r)
	}
	e.getsNot(b, w2)
	holder, r := e.asks(a, w1)
	if holder == "" || !r.Contended {
		e.Fatalf("the first of three waiters: %+v", r)
	}
	e.getsNot(c, w3)
	e.gives(a, holder)
	e.getsNot(c, w3)
	holder = e.gets(b, w2)
	e.gives(b, holder)
	e.gives(c, e.gets(c, w3))
	e.gives(a, e.gets(a, newOwner())) // nothing is left in the line
}

func queueLeave(e *env) {
	a, b := e.driver(), e.driver()
	w1, w2 := newOwner(), newOwner()
	holder := e.gets(a, "")
	e.getsNot(a, w1)
	e.getsNot(b, w2)
	leave := func(w string) error {
		return a.(dibsdriver.Leaver).Leave(e.Context(), dibsdriver.WaitParams{Key: "k", Waiter: w})
	}
	e.ok(leave(w1), "leave")
	e.ok(leave(w1), "leave again")
	e.ok(leave(newOwner()), "leave without having come")
	e.gives(a, holder)
	e.gives(b, e.gets(b, w2))
	if c, ok := e.store.(QueueCounter); ok && c.Queued(e, "k") != 0 {
		e.Errorf("%d places are left in the queue", c.Queued(e, "k"))
	}
}

// queueSilent: a waiter that died or is frozen delays the others, but not for long; one that asks once a second keeps its place.
func queueSilent(e *env) {
	a, b := e.driver(), e.driver()
	silent, alive := newOwner(), newOwner()
	holder := e.gets(a, "")
	e.getsNot(a, silent)
	asked := time.Now()
	e.getsNot(b, alive)
	e.gives(a, holder)
	began := time.Now()
	for {
		if owner, _ := e.asks(b, alive); owner != "" {
			break
		}
		if time.Since(began) > dibsdriver.QueueGrace+e.slack {
			e.Fatalf("a silent waiter delays the others by more than %s", dibsdriver.QueueGrace)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if d := time.Since(asked); d < dibsdriver.QueueAsk {
		e.Errorf("a waiter lost its place after %s; it need not ask more often than once in %s", d, dibsdriver.QueueAsk)
	}
}

func queueSingle(e *env) {
	a, b := e.driver(), e.driver()
	w := newOwner()
	holder := e.gets(a, "")
	e.getsNot(b, w)
	e.getsNot(a, "") // leaves no place
	e.gives(a, holder)
	e.gives(a, e.gets(a, ""))
	e.gives(b, e.gets(b, w))
}

// wakeOnRelease: also when the release came before the wait.
func wakeOnRelease(e *env) {
	a, b := e.driver(), e.driver()
	for _, early := range []bool{false, true} {
		w := newOwner()
		p := e.params("k")
		p.TTL = max(p.TTL, 30*time.Second)
		e.take(a, p)
		e.getsNot(b, w)
		woken := make(chan error, 1)
		wait := func() { woken <- b.(dibsdriver.Waker).Wait(e.Context(), dibsdriver.WaitParams{Key: "k", Waiter: w}) }
		if !early {
			go wait()
			time.Sleep(50 * time.Millisecond)
		}
		e.gives(a, p.Owner)
		if early {
			go wait()
		}
		select {
		case err := <-woken:
			e.ok(err, "wait")
		case <-time.After(e.slack + time.Second):
			e.Fatalf("not woken (released before the wait: %t)", early)
		}
		e.gives(b, e.gets(b, w))
	}
}

func wakeContext(e *env) {
	a, b := e.driver(), e.driver()
	w := newOwner()
	p := e.params("k")
	p.TTL = max(p.TTL, 30*time.Second)
	e.take(a, p)
	e.getsNot(b, w)
	ctx, cancel := context.WithTimeout(e.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := b.(dibsdriver.Waker).Wait(ctx, dibsdriver.WaitParams{Key: "k", Waiter: w}); err == nil {
		e.Error("woken although the key is held")
	}
	e.took(began, 100*time.Millisecond, 100*time.Millisecond+dibsdriver.Grace, "the wait")
}
