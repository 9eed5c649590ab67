package dibsdrivertest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dibs-go/dibs"
)

var shutdownCases = []testcase{
	{name: "B24/shutdown_waits_for_the_work", run: shutdownWaits},
	{name: "B24/cancelled_work_keeps_its_lock", run: cancelledWork},
	{name: "S6/shutdown_leaves_the_rest_to_lapse", run: shutdownLapse},
	{name: "S6/shutdown_when_the_store_hangs", run: shutdownHung},
	{name: "S6/shutdown_ends_waiting", run: shutdownWaiters},
	{name: "S6/shutdown_twice", run: shutdownTwice},
}

// shutdownWaits: the work is told, and nobody else begins before it has ended, however long that takes.
func shutdownWaits(e *env) {
	a, b := e.locker(), e.locker()
	var ended atomic.Int64
	began := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- a.Do(e.Context(), "k", func(ctx context.Context) error {
			close(began)
			<-ctx.Done()
			time.Sleep(2 * e.ttl)
			ended.Store(time.Now().UnixNano())
			return context.Cause(ctx)
		})
	}()
	e.began(began, done)
	next := e.waits(b, "k")
	start := time.Now()
	e.ok(a.Shutdown(e.Context()), "shutdown")
	if ended.Load() == 0 {
		e.Error("shutdown returned before the work had")
	}
	e.took(start, 2*e.ttl, 2*e.ttl, "shutdown")
	e.is(receive(e, done), dibs.ErrClosed, "the work's context")
	if n := e.got(next, 10*time.Second); n.at.UnixNano() < ended.Load() {
		e.Error("another had the key while the work went on")
	}
}

// began waits until a work has begun.
func (e *env) began(began <-chan struct{}, done <-chan error) {
	e.Helper()
	select {
	case <-began:
	case err := <-done:
		e.Fatalf("the work did not begin: %v", err)
	}
}

func cancelledWork(e *env) {
	a, b := e.locker(), e.locker()
	ctx, cancel := context.WithCancel(e.Context())
	var working atomic.Bool
	done := make(chan error, 1)
	began := make(chan struct{})
	go func() {
		done <- a.Do(ctx, "k", func(ctx context.Context) error {
			working.Store(true)
			close(began)
			<-ctx.Done()
			time.Sleep(3 * e.ttl)
			working.Store(false)
			return nil
		})
	}()
	e.began(began, done)
	cancel()
	e.throughout(2*e.ttl, "held while the work goes on", func() bool { return e.store.Peek(e, "k").Held })
	lock, _ := e.hold(b, "k")
	if working.Load() {
		e.Error("another had the key while the work went on")
	}
	e.ok(lock.Release(), "release")
	e.ok(receive(e, done), "do")
}

// shutdownLapse: nothing is released under work that still runs.
func shutdownLapse(e *env) {
	a, b := e.locker(), e.locker()
	lock, work := e.hold(a, "k")
	ctx, cancel := context.WithTimeout(e.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	e.is(a.Shutdown(ctx), context.DeadlineExceeded, "shutdown")
	e.took(began, 200*time.Millisecond, 400*time.Millisecond, "shutdown")
	e.is(context.Cause(work), dibs.ErrClosed, "the work's context")
	if lock.Err() == nil {
		e.Error("the lock is trusted, but nobody renews it")
	}
	if l := e.store.Peek(e, "k"); !l.Held && time.Since(began) < e.ttl/2 {
		e.Error("released under work that runs")
	}
	e.free(b, "k", e.ttl+e.slack)
	if err := lock.Release(); err == nil {
		e.Error("a release after all that says that all is well")
	}
}

func shutdownHung(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	lock, _ := e.hold(a, "k")
	faults.OnAll(Hang())
	released := make(chan error, 1)
	go func() { released <- lock.Release() }()
	ctx, cancel := context.WithTimeout(e.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	// Close itself does not hang by the rules.
	if a.Shutdown(ctx) == nil {
		e.Error("shut down with a release under way")
	}
	e.took(began, 0, 600*time.Millisecond, "shutdown")
	faults.Heal()
	e.is(receive(e, released), dibs.ErrUnavailable, "release")
}

func shutdownWaiters(e *env) {
	a, b := e.locker(), e.locker()
	lock, _ := e.hold(b, "k")
	waits := make(chan error, 3)
	for range 3 {
		go func() {
			_, _, err := a.Acquire(e.Context(), "k")
			waits <- err
		}()
	}
	time.Sleep(100 * time.Millisecond)
	e.ok(a.Shutdown(e.Context()), "shutdown")
	for range 3 {
		e.is(receive(e, waits), dibs.ErrClosed, "a waiter")
	}
	_, _, err := a.Acquire(e.Context(), "k")
	e.is(err, dibs.ErrClosed, "acquire")
	_, _, err = a.TryAcquire(e.Context(), "free")
	e.is(err, dibs.ErrClosed, "try")
	ran, err := a.TryDo(e.Context(), "free", func(context.Context) error { return nil })
	if e.is(err, dibs.ErrClosed, "try-do"); ran {
		e.Error("ran")
	}
	_, err = a.Locks(e.Context(), "")
	e.is(err, dibs.ErrClosed, "locks")
	e.is(a.Ping(e.Context()), dibs.ErrClosed, "ping")
	if c, ok := e.store.(QueueCounter); ok {
		e.until(time.Second+e.slack, "nothing is left in the queue", func() bool { return c.Queued(e, "k") == 0 })
	}
	e.ok(lock.Release(), "release")
}

func shutdownTwice(e *env) {
	a := e.locker()
	w := a.With(dibs.Note("the same locker"))
	e.free(w, "k", e.slack)
	e.ok(a.Shutdown(e.Context()), "shutdown")
	e.ok(a.Shutdown(e.Context()), "the second shutdown")
	_, _, err := w.TryAcquire(e.Context(), "k")
	e.is(err, dibs.ErrClosed, "the locker made by With")
}
