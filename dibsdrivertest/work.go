package dibsdrivertest

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/dibs-go/dibs"
)

var workCases = []testcase{
	{name: "S8/B23/error_of_the_work_stays", run: workError},
	{name: "S8/B23/work_done_release_uncertain", run: workDone},
	{name: "S8/B23/cancelled_and_release_fails", run: workCancelled},
	{name: "S8/lost_under_work_that_succeeds", run: workLost},
	{name: "S8/B25/panic", run: workPanic},
	{name: "S8/B25/goexit", run: workGoexit},
	{name: "S8/B25/nil_lock", run: nilLock},
	{name: "S8/try_do", run: tryDo},
	{name: "S8/B60/no_lock_no_work", run: noLockNoWork},
	{name: "S8/value", run: value},
	{name: "S8/work_releases_its_lock", run: workReleases},
}

var errWork = errors.New("the work failed")

// workError: the release fails as well, and both can be seen.
func workError(e *env) {
	a, faults := e.faultyLocker(dibs.Config{RequestTimeout: 2 * time.Second})
	err := a.Do(e.Context(), "k", func(context.Context) error {
		faults.OnAll(FailBefore(errAway))
		return errWork
	})
	e.is(err, errWork, "do")
	e.is(err, dibs.ErrUnavailable, "do")
}

func workDone(e *env) {
	a, faults := e.faultyLocker(dibs.Config{RequestTimeout: 2 * time.Second})
	err := a.Do(e.Context(), "k", func(context.Context) error {
		faults.OnAll(Hole())
		return nil
	})
	e.is(err, dibs.ErrUnavailable, "do")
	e.isNot(err, dibs.ErrLost, "do")
}

func workCancelled(e *env) {
	a, faults := e.faultyLocker(dibs.Config{RequestTimeout: 2 * time.Second})
	ctx, cancel := context.WithCancel(e.Context())
	err := a.Do(ctx, "k", func(ctx context.Context) error {
		faults.OnAll(FailBefore(errAway))
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	e.is(err, context.Canceled, "do")
	e.is(err, dibs.ErrUnavailable, "do")
}

// workLost: what the work did may have happened beside another's, whatever it thinks.
func workLost(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	err := a.Do(e.Context(), "k", func(ctx context.Context) error {
		faults.OnAll(FailBefore(errAway))
		<-ctx.Done()
		return nil
	})
	e.is(err, dibs.ErrLost, "do")
	faults.Heal()
	err = a.Do(e.Context(), "k2", func(ctx context.Context) error {
		faults.OnAll(FailBefore(errAway))
		<-ctx.Done()
		return errWork
	})
	e.is(err, dibs.ErrLost, "do")
	e.is(err, errWork, "do")
}

func workPanic(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	b := e.locker()
	func() {
		defer func() {
			if p := recover(); p != any(errWork) {
				e.Errorf("recovered %v", p)
			}
		}()
		a.Do(e.Context(), "k", func(context.Context) error { panic(errWork) })
		e.Error("the panic was swallowed")
	}()
	lock, _, err := b.TryAcquire(e.Context(), "k")
	e.ok(err, "the next try")
	calls := faults.Calls(OpRenew)
	time.Sleep(e.ttl)
	if n := faults.Calls(OpRenew); n != calls {
		e.Error("renewal goes on after the panic")
	}
	e.ok(lock.Release(), "release")
	ran, err := a.TryDo(e.Context(), "k", func(context.Context) error { return nil }) // the next tick
	if !ran || err != nil {
		e.Errorf("the next run: %t, %v", ran, err)
	}
}

func workGoexit(e *env) {
	a, b := e.locker(), e.locker()
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.Do(e.Context(), "k", func(context.Context) error { runtime.Goexit(); return nil })
	}()
	receive(e, done)
	lock, _, err := b.TryAcquire(e.Context(), "k")
	e.ok(err, "the next try")
	e.ok(lock.Release(), "release")
}

// nilLock: defer lock.Release() before err was looked at must not crash.
func nilLock(e *env) {
	a, b := e.locker(), e.locker()
	held, _ := e.hold(a, "k")
	lock, work, err := b.TryAcquire(e.Context(), "k")
	e.is(err, dibs.ErrBusy, "try")
	if lock != nil || work != nil {
		e.Errorf("a lock that was not acquired: %v, %v", lock, work)
	}
	for _, l := range []*dibs.Lock{lock, {}} {
		e.is(l.Release(), dibs.ErrReleased, "release")
		e.is(l.Err(), dibs.ErrReleased, "err")
		e.is(l.Verify(e.Context()), dibs.ErrReleased, "verify")
		if l.Token() != 0 || l.Remaining() != 0 || l.Key() != "" {
			e.Errorf("a lock that is none: %d, %s, %q", l.Token(), l.Remaining(), l.Key())
		}
	}
	e.ok(held.Verify(e.Context()), "the holder asks")
	e.ok(held.Release(), "release")
}

// tryDo: a busy key is no error, and an ErrBusy of the work's own is one.
func tryDo(e *env) {
	a, b := e.locker(), e.locker()
	held, _ := e.hold(a, "k")
	for _, l := range []*dibs.Locker{a, b} {
		ran, err := l.TryDo(e.Context(), "k", func(context.Context) error { e.Error("ran"); return nil })
		if ran || err != nil {
			e.Errorf("busy: %t, %v", ran, err)
		}
		ran, err = l.TryDo(e.Context(), "another", func(ctx context.Context) error {
			_, _, err := l.TryAcquire(ctx, "k")
			return err
		})
		if !ran || !errors.Is(err, dibs.ErrBusy) {
			e.Errorf("busy inside of the work: %t, %v", ran, err)
		}
	}
	e.ok(held.Release(), "release")
	ran, err := b.TryDo(e.Context(), "k", func(context.Context) error { return errWork })
	if !ran || !errors.Is(err, errWork) {
		e.Errorf("free: %t, %v", ran, err)
	}
}

// noLockNoWork: the work runs in none of these, and the error says which it was.
func noLockNoWork(e *env) {
	a, faults := e.faultyLocker(dibs.Config{RequestTimeout: 300 * time.Millisecond})
	b := e.locker()
	never := func(context.Context) error { e.Error("the work ran without a lock"); return nil }
	for _, fault := range []Fault{FailBefore(errAway), Hole(), Hang(), FailBefore(errAwayNotApplied), FailBefore(errors.New("something else"))} {
		faults.OnAll(fault)
		e.unknown(a.Do(e.Context(), "k", never), "do")
		ran, err := a.TryDo(e.Context(), "k", never)
		if e.unknown(err, "try-do"); ran {
			e.Error("ran")
		}
		_, err = dibs.Value(e.Context(), a, "k", func(context.Context) (int, error) { return 0, never(nil) })
		e.unknown(err, "value")
		faults.Heal()
	}
	held, _ := e.hold(b, "k", e.lasting()...)
	err := e.locker().Do(e.Context(), "k", never, dibs.MaxWait(0))
	e.is(err, dibs.ErrBusy, "do")
	e.isNot(err, dibs.ErrUnavailable, "do")
	e.ok(held.Release(), "release")
}

func value(e *env) {
	v, err := dibs.Value(e.Context(), e.locker(), "k", func(ctx context.Context) (string, error) {
		if lock, ok := dibs.FromContext(ctx, "k"); !ok || lock.Err() != nil {
			e.Error("no lock in the context")
		}
		return "result", errWork
	})
	if e.is(err, errWork, "value"); v != "result" {
		e.Errorf("the value is %q", v)
	}
}

func workReleases(e *env) {
	a := e.locker()
	err := a.Do(e.Context(), "k", func(ctx context.Context) error {
		lock, _ := dibs.FromContext(ctx, "k")
		return lock.Release()
	})
	e.ok(err, "do")
	e.free(a, "k", e.slack)
}
