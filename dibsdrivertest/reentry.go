package dibsdrivertest

import (
	"context"
	"sync"
	"time"

	"github.com/dibs-go/dibs"
)

var reentryCases = []testcase{
	{name: "B52/held_is_an_error_at_once", run: heldError},
	{name: "B52/reenter_counts", run: reenterCounts},
	{name: "B52/reenter_out_of_order", run: reenterOrder},
	{name: "B52/goroutines_share_the_context", run: sharedContext},
	{name: "B52/ended_lock_does_not_count", run: endedContext},
	{name: "B52/lost_lock_does_not_count", run: lostContext},
	{name: "B52/stranger_of_the_same_name_stays_out", run: sameName},
	{name: "B52/loss_ends_all_levels", run: reenterLost},
	{name: "B52/other_keys_and_lockers", run: otherKeys},
	{name: "B52/from_context", run: fromContext},
}

// heldError: waiting for what this context holds would never end.
func heldError(e *env) {
	a := e.locker()
	lock, work := e.hold(a, "k")
	began := time.Now()
	for _, ctx := range []context.Context{work, context.WithoutCancel(work), context.WithValue(work, new(int), 1)} {
		_, _, err := a.Acquire(ctx, "k")
		e.is(err, dibs.ErrHeld, "acquire")
		_, _, err = a.TryAcquire(ctx, "k")
		e.is(err, dibs.ErrHeld, "try")
		e.isNot(err, dibs.ErrBusy, "try")
		e.is(a.Do(ctx, "k", nil), dibs.ErrHeld, "do")
		ran, err := a.TryDo(ctx, "k", nil)
		if e.is(err, dibs.ErrHeld, "try-do"); ran {
			e.Error("ran")
		}
		_, _, err = a.With(dibs.Note("n")).TryAcquire(ctx, "k")
		e.is(err, dibs.ErrHeld, "another form of the same locker")
	}
	e.took(began, 0, 0, "being refused")
	e.ok(lock.Verify(e.Context()), "the holder asks")
	e.ok(lock.Release(), "release")
}

// reenterCounts takes it three times: after two releases it is still held and renewed, the third is the real one.
func reenterCounts(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	b := e.locker()
	first, work := e.hold(a, "k")
	second, inner, err := a.Acquire(work, "k", dibs.Reenter())
	e.ok(err, "re-entry")
	third, innermost, err := a.TryAcquire(context.WithoutCancel(inner), "k", dibs.Reenter(), dibs.MinHold(time.Hour), dibs.TTL(e.ttl))
	e.ok(err, "re-entry")
	if first.Token() != second.Token() || first.Token() != third.Token() {
		e.Errorf("tokens %d, %d, %d", first.Token(), second.Token(), third.Token())
	}
	if n := faults.Calls(OpAcquire); n != 1 {
		e.Errorf("%d acquires", n)
	}
	e.ok(third.Release(), "release")
	if innermost.Err() == nil || inner.Err() != nil {
		e.Errorf("contexts: %v, %v", innermost.Err(), inner.Err())
	}
	e.is(third.Release(), dibs.ErrReleased, "release again")
	e.ok(second.Release(), "release")
	e.throughout(2*e.ttl, "held and renewed", func() bool { return first.Err() == nil && e.store.Peek(e, "k").Held })
	e.busy(b, "k")
	if n := faults.Calls(OpRelease); n != 0 {
		e.Errorf("%d releases", n)
	}
	e.ok(first.Release(), "release")
	e.free(b, "k", e.slack)
	e.is(first.Release(), dibs.ErrReleased, "the fourth")
}

// reenterOrder: the outer lock is released before the inner one.
func reenterOrder(e *env) {
	a, b := e.locker(), e.locker()
	outer, work := e.hold(a, "k")
	inner, innerWork, err := a.Acquire(work, "k", dibs.Reenter())
	e.ok(err, "re-entry")
	e.ok(outer.Release(), "release")
	e.busy(b, "k")
	if inner.Err() != nil || innerWork.Err() != nil {
		e.Errorf("the inner lock: %v, %v", inner.Err(), innerWork.Err())
	}
	e.ok(inner.Release(), "release")
	e.free(b, "k", e.slack)
}

func sharedContext(e *env) {
	a, b := e.locker(), e.locker()
	lock, work := e.hold(a, "k")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 20 {
				if err := a.Do(work, "k", func(context.Context) error { return nil }, dibs.Reenter()); err != nil {
					e.Errorf("re-entry: %v", err)
				}
			}
		})
	}
	wg.Wait()
	e.ok(lock.Err(), "the lock")
	e.busy(b, "k")
	e.ok(lock.Release(), "release")
	e.free(b, "k", e.slack)
}

func endedContext(e *env) {
	a := e.locker()
	lock, work := e.hold(a, "k")
	e.ok(lock.Release(), "release")
	_, _, err := a.Acquire(work, "k")
	e.is(err, context.Canceled, "acquire on a context that ended with its lock")
	again, _, err := a.Acquire(context.WithoutCancel(work), "k", dibs.MaxWait(e.slack))
	e.ok(err, "acquire by a context whose lock was released")
	if again.Token() <= lock.Token() {
		e.Errorf("tokens %d, %d", lock.Token(), again.Token())
	}
	e.ok(again.Release(), "release")
	third, _, err := a.Acquire(context.WithoutCancel(work), "k", dibs.Reenter(), dibs.MaxWait(e.slack))
	e.ok(err, "re-entry by a context whose lock was released")
	e.ok(third.Release(), "release")
}

func lostContext(e *env) {
	a, b := e.locker(), e.locker()
	lock, work := e.hold(a, "k")
	_, err := b.BreakNow(e.Context(), "k", lock.Token())
	e.ok(err, "break")
	e.until(e.ttl+e.slack, "the loss is known", func() bool { return work.Err() != nil })
	again, _, err := a.Acquire(context.WithoutCancel(work), "k", dibs.MaxWait(e.slack), dibs.Reenter())
	e.ok(err, "acquire by a context whose lock was lost")
	if again.Token() <= lock.Token() {
		e.Errorf("tokens %d, %d", lock.Token(), again.Token())
	}
	e.is(lock.Release(), dibs.ErrLost, "release of the lost lock")
	e.ok(again.Verify(e.Context()), "the new lock")
	e.ok(again.Release(), "release of the new lock")
}

// sameName: all containers are pid 1 of one host name.
func sameName(e *env) {
	a, b := e.lockerWith(dibs.Config{Name: "host pid 1"}), e.lockerWith(dibs.Config{Name: "host pid 1"})
	lock, work := e.hold(a, "k")
	e.busy(b, "k")
	e.busy(a, "k")
	_, _, err := b.TryAcquire(e.Context(), "k", dibs.Reenter())
	e.is(err, dibs.ErrBusy, "re-entry by a stranger")
	_, _, err = a.TryAcquire(e.Context(), "k", dibs.Reenter())
	e.is(err, dibs.ErrBusy, "re-entry by another goroutine")
	_, _, err = b.TryAcquire(work, "k", dibs.Reenter())
	e.is(err, dibs.ErrBusy, "re-entry by another locker with the same context")
	e.ok(lock.Release(), "release")
}

func reenterLost(e *env) {
	a, b := e.locker(), e.locker()
	lock, work := e.hold(a, "k")
	inner, innerWork, err := a.Acquire(work, "k", dibs.Reenter())
	e.ok(err, "re-entry")
	_, err = b.BreakNow(e.Context(), "k", lock.Token())
	e.ok(err, "break")
	e.until(e.ttl+e.slack, "the loss is known", func() bool { return innerWork.Err() != nil })
	e.is(context.Cause(innerWork), dibs.ErrLost, "the inner context")
	e.is(inner.Err(), dibs.ErrLost, "the inner lock")
	e.is(inner.Release(), dibs.ErrLost, "the inner release")
	e.is(lock.Release(), dibs.ErrLost, "the outer release")
	e.free(b, "k", e.slack)
}

func otherKeys(e *env) {
	a, b := e.locker(), e.locker()
	err := a.Do(e.Context(), "outer", func(ctx context.Context) error {
		return a.Do(ctx, "inner", func(ctx context.Context) error {
			_, _, err := a.TryAcquire(ctx, "outer")
			e.is(err, dibs.ErrHeld, "the outer key from within")
			_, _, err = b.TryAcquire(ctx, "outer")
			e.is(err, dibs.ErrBusy, "another locker")
			return b.Do(ctx, "third", func(context.Context) error { return nil })
		})
	})
	e.ok(err, "do")
}

func fromContext(e *env) {
	a := e.locker()
	if _, ok := dibs.FromContext(e.Context(), "k"); ok {
		e.Error("a lock out of nothing")
	}
	outer, work := e.hold(a, "k")
	inner, innerWork, err := a.Acquire(work, "k", dibs.Reenter())
	e.ok(err, "re-entry")
	if l, _ := dibs.FromContext(work, "k"); l != outer {
		e.Error("not the outer lock")
	}
	if l, _ := dibs.FromContext(innerWork, "k"); l != inner {
		e.Error("not the inner lock")
	}
	if _, ok := dibs.FromContext(innerWork, "K"); ok {
		e.Error("a lock on another key")
	}
	e.ok(inner.Release(), "release")
	e.ok(outer.Release(), "release")
	if l, ok := dibs.FromContext(work, "k"); !ok || l.Err() == nil {
		e.Error("after its end it must be there, and say so")
	}
}
