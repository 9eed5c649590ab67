package dibs

import (
	"context"
	"strings"
)

// Do waits for the key as [Locker.Acquire] does, runs fn under it, and releases it. fn is given the work's context, which ends
// when the lock is lost; fn should then stop.
//
// The error is Acquire's (fn did not run), or fn's joined with that of the release, both of which [errors.Is] finds. A lock that was lost is [ErrLost] even if
// fn returned nil: what it did may have happened beside another's work. If fn panics, or ends its goroutine with
// [runtime.Goexit], the lock is released and the panic goes on.
func (l *Locker) Do(ctx context.Context, key string, fn func(ctx context.Context) error, opts ...Option) error {
	lock, work, err := l.Acquire(ctx, key, opts...)
	if err != nil {
		return err
	}
	return lock.run(work, fn)
}

// TryDo is [Locker.Do] with one attempt, as [Locker.TryAcquire] makes it: if the key is busy it returns (false, nil). ran says whether fn
// ran: an error that is [ErrBusy] with ran true is fn's own.
func (l *Locker) TryDo(ctx context.Context, key string, fn func(ctx context.Context) error, opts ...Option) (ran bool, err error) {
	lock, work, err := l.TryAcquire(ctx, key, opts...)
	if err != nil {
		if _, busy := err.(*BusyError); busy {
			return false, nil
		}
		return false, err
	}
	return true, lock.run(work, fn)
}

// Value is [Locker.Do] for a function that returns a value. The value is fn's even if the error is not nil.
func Value[T any](ctx context.Context, l *Locker, key string, fn func(ctx context.Context) (T, error), opts ...Option) (T, error) {
	var v T
	err := l.Do(ctx, key, func(ctx context.Context) (err error) {
		v, err = fn(ctx)
		return err
	}, opts...)
	return v, err
}

// run runs fn under the lock and releases it, however fn ends.
func (l *Lock) run(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	defer func() {
		released := l.Release()
		switch {
		case released == nil, released == ErrReleased: // fn may have released it
		case err == nil:
			err = released
		default:
			err = &bothErrors{err, released}
		}
	}()
	return fn(ctx)
}

// bothErrors are the errors of a work and of its lock. What one of them says already, as the cause of a context's end may, is not said twice.
type bothErrors struct{ work, lock error }

func (e *bothErrors) Error() string {
	work, lock := e.work.Error(), e.lock.Error()
	switch {
	case strings.HasPrefix(lock, work):
		return lock
	case strings.Contains(work, lock):
		return work
	}
	return work + "\n" + lock
}

func (e *bothErrors) Unwrap() []error { return []error{e.work, e.lock} }
