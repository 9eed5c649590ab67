package dibsdrivertest

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-go/dibs"
)

// inTxAndRelease: the commit releases the lock, once, and only a commit does.
func inTxAndRelease(e *env) {
	var released, lost atomic.Int32
	b := newFenceBed(e, dibs.Config{Events: dibs.Events{
		Released: func(event dibs.Event) {
			if event.Err != nil {
				e.Errorf("released with %v", event.Err)
			}
			released.Add(1)
		},
		Lost: func(dibs.Event) { lost.Add(1) },
	}})
	in := func(ctx context.Context, lock *dibs.Lock) error { return b.InTxAndRelease(ctx, b.DB, lock, b.add) }
	_, other := b.process(dibs.Config{})
	lock, work := b.take(b.locker, "k")
	boom := errors.New("boom")
	err := b.InTxAndRelease(work, b.DB, lock, func(tx *sql.Tx) error { return errors.Join(b.add(tx), boom) })
	if !errors.Is(err, boom) || lock.Err() != nil {
		b.Errorf("after the work's error: %v, %v", err, lock.Err())
	}
	b.ok(in(work, lock), "in a transaction that releases")
	b.worked(1)
	if lock.Err() != dibs.ErrReleased || lock.Remaining() != 0 || context.Cause(work) != dibs.ErrReleased || lock.Verify(b.within()) != dibs.ErrReleased {
		b.Errorf("%v, %s, %v", lock.Err(), lock.Remaining(), context.Cause(work))
	}
	next, _, err := other.TryAcquire(b.within(), "k")
	b.ok(err, "the next one tries")
	b.says("once more", in(b.within(), lock), dibs.ErrReleased)
	for i, want := range []error{nil, dibs.ErrReleased} {
		if err := lock.Release(); err != want {
			b.Errorf("release %d: %v, want %v", i, err, want)
		}
	}
	if err := next.Release(); err != nil {
		b.Errorf("somebody released the next one's: %v", err)
	}
	// Within Do, nothing but success is to be seen; the next in line is served.
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			err := b.locker.Do(b.within(), "k", func(ctx context.Context) error {
				lock, _ := dibs.FromContext(ctx, "k")
				return in(ctx, lock)
			})
			if err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
	b.worked(6)
	b.releaseInMinHold(other, in)
	b.releaseOfTwo(in)
	b.until(10*time.Second, "all releases are told", func() bool { return released.Load() == 8 })
	if n := lost.Load(); n != 0 {
		b.Errorf("%d locks are said to be lost", n)
	}
}

// releaseInMinHold: a min hold stands.
func (b *fenceBed) releaseInMinHold(other *dibs.Locker, in func(context.Context, *dibs.Lock) error) {
	lock, _ := b.take(b.locker, "min", dibs.MinHold(time.Hour))
	b.ok(in(b.within(), lock), "in its min hold")
	if _, _, err := other.TryAcquire(b.within(), "min"); !errors.Is(err, dibs.ErrBusy) {
		b.Errorf("in its min hold: %v", err)
	}
	if l := b.store.Peek(b, "min"); l.Left < 59*time.Minute || l.Left > time.Hour {
		b.Errorf("%s are left", l.Left)
	}
	b.worked(7)
}

// releaseOfTwo: a lock that is held twice is not released by one of its holders.
func (b *fenceBed) releaseOfTwo(in func(context.Context, *dibs.Lock) error) {
	lock, work := b.take(b.locker, "twice")
	inner, _, err := b.locker.Acquire(work, "twice", dibs.Reenter())
	b.ok(err, "taking it again")
	for _, lock := range []*dibs.Lock{lock, inner} {
		if err := in(b.within(), lock); err == nil || !strings.Contains(err.Error(), "2 times") {
			b.Errorf("%v", err)
		}
	}
	b.worked(7)
	b.ok(errors.Join(inner.Release(), in(b.within(), lock), lock.Release()), "one after the other")
	b.worked(8)
}
