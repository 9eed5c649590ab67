package dibs_test

import (
	"cmp"
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsmem"
)

func TestErrHeldAtOnce(t *testing.T) {
	bubble(t, dibs.Config{Prefix: "app:"}, func(t *testing.T, h *house) {
		lock, ctx := h.take(t)
		start := time.Now()
		_, _, err := h.Acquire(ctx, "k")
		want(t, err, dibs.ErrHeld)
		_, _, err = h.TryAcquire(ctx, "k")
		want(t, err, dibs.ErrHeld)
		want(t, h.Do(ctx, "k", nil), dibs.ErrHeld)
		_, _, err = h.With(dibs.MaxHold(time.Minute)).Acquire(ctx, "k")
		want(t, err, dibs.ErrHeld)

		// nested below another key, and across goroutines that share the context
		second, inner, err := h.Acquire(ctx, "other")
		want(t, err, nil)
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _, err := h.Acquire(inner, "k")
			want(t, err, dibs.ErrHeld)
		})
		wg.Wait()
		if time.Since(start) != 0 {
			t.Error("it waited")
		}
		if l, ok := dibs.FromContext(inner, "k"); !ok || l != lock {
			t.Error("the outer lock is not in the inner context")
		}
		if _, ok := dibs.FromContext(inner, "app:k"); ok {
			t.Error("the prefix is not the caller's")
		}
		want(t, second.Release(), nil)
		want(t, lock.Release(), nil)
	})
}

func TestAnotherStoreIsAnotherLock(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, a *house) {
		bubbleless := open(t, newStore(), dibs.Config{})
		lock, ctx := a.take(t)
		theirs, _, err := bubbleless.Acquire(ctx, "k")
		want(t, err, nil)
		want(t, theirs.Release(), nil)
		want(t, lock.Release(), nil)
		want(t, bubbleless.Shutdown(t.Context()), nil)
	})
}

func TestALockThatHasEndedDoesNotCount(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		lock, ctx := h.take(t)
		want(t, lock.Release(), nil)
		again, ctx2, err := h.Acquire(context.WithoutCancel(ctx), "k")
		want(t, err, nil)
		_, _, err = h.Acquire(context.WithoutCancel(ctx2), "k")
		want(t, err, dibs.ErrHeld)
		want(t, again.Release(), nil)

		lost, ctx := h.take(t, dibs.TTL(9*time.Second))
		h.store.Expire("k")
		<-ctx.Done()
		_, _, err = h.Acquire(ctx, "k")
		want(t, err, context.Canceled, dibs.ErrLost)
		again, _, err = h.Acquire(context.WithoutCancel(ctx), "k")
		want(t, err, nil)
		want(t, again.Release(), nil)
		want(t, lost.Release(), dibs.ErrLost)
	})
}

func TestB52_ReenterCounts(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		one, ctx := h.take(t)
		two, ctx2, err := h.Acquire(ctx, "k", dibs.Reenter())
		want(t, err, nil)
		// inner options are ignored
		three, ctx3, err := h.TryAcquire(ctx2, "k", dibs.Reenter(), dibs.TTL(time.Second), dibs.MaxHold(time.Second))
		want(t, err, nil)
		if one.Token() != three.Token() {
			t.Error("a re-entry has a token of its own")
		}
		time.Sleep(2 * time.Minute)
		want(t, three.Release(), nil)
		want(t, three.Release(), dibs.ErrReleased)
		want(t, context.Cause(ctx3), dibs.ErrReleased)
		want(t, one.Release(), nil) // in any order
		want(t, one.Release(), dibs.ErrReleased)
		want(t, ctx2.Err(), nil)
		time.Sleep(2 * time.Minute)
		if h.left(t, "k") < 20*time.Second {
			t.Error("released, or not renewed, after two of three")
		}
		want(t, two.Err(), nil)
		want(t, two.Release(), nil)
		want(t, two.Release(), dibs.ErrReleased)
		if h.left(t, "k") != 0 {
			t.Error("held after the third")
		}
		anew, _, err := h.Acquire(context.WithoutCancel(ctx3), "k", dibs.Reenter())
		want(t, err, nil)
		if anew.Token() <= one.Token() {
			t.Error("re-entered a lock that had ended")
		}
		l, _ := dibs.FromContext(ctx3, "k")
		want(t, l.Err(), dibs.ErrReleased)
		want(t, anew.Release(), nil)
	})
}

func TestReenterIsLostWithItsLock(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		one, ctx := h.take(t)
		two, ctx2, err := h.Acquire(ctx, "k", dibs.Reenter())
		want(t, err, nil)
		h.store.Expire("k")
		<-ctx2.Done()
		want(t, context.Cause(ctx2), dibs.ErrLost)
		want(t, two.Err(), dibs.ErrLost)
		want(t, two.Release(), dibs.ErrLost)
		want(t, one.Release(), dibs.ErrLost)
	})
}

// TestB52_AReentryEndsWithItsLock, and with its caller, but not with the callers of the others.
func TestB52_AReentryEndsWithItsLock(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(h *house, callers func())
		want error
	}{
		"lost":               {func(h *house, _ func()) { h.store.Expire("k") }, dibs.ErrLost},
		"max hold":           {func(*house, func()) { time.Sleep(time.Hour) }, dibs.ErrMaxHold},
		"Shutdown":           {func(h *house, _ func()) { go h.Shutdown(context.Background()) }, dibs.ErrClosed},
		"its outer caller's": {func(_ *house, callers func()) { callers() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, dibs.Config{MaxHold: time.Hour}, func(t *testing.T, h *house) {
				caller, cancel := context.WithCancel(t.Context())
				defer cancel()
				outer, ctx, err := h.Acquire(caller, "k")
				want(t, err, nil)
				inner, work, err := h.Acquire(context.WithoutCancel(ctx), "k", dibs.Reenter())
				want(t, err, nil)
				gone, over, err := h.Acquire(work, "k", dibs.Reenter())
				want(t, err, nil)
				want(t, gone.Release(), nil)
				c.end(h, cancel)
				<-ctx.Done()
				synctest.Wait()
				want(t, context.Cause(work), c.want)
				want(t, context.Cause(over), dibs.ErrReleased)
				if c.want == nil {
					want(t, inner.Err(), nil)
				}
				_, _ = inner.Release(), outer.Release()
				want(t, context.Cause(work), cmp.Or(c.want, dibs.ErrReleased))
			})
		})
	}
}

// hooks is a context that calls back when somebody wants to know its end.
type hooks struct {
	context.Context
	done func()
}

func (c hooks) Done() <-chan struct{} {
	c.done()
	return c.Context.Done()
}

// TestAReentryThatRacesTheLastRelease is an acquire like any other.
func TestAReentryThatRacesTheLastRelease(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		first, ctx := h.take(t)
		late := hooks{context.WithoutCancel(ctx), func() { first.Release() }} // it has been looked up by then
		again, work, err := h.Acquire(late, "k", dibs.Reenter())
		want(t, err, nil)
		want(t, first.Err(), dibs.ErrReleased)
		want(t, work.Err(), nil)
		if again.Token() <= first.Token() {
			t.Errorf("token %d after %d", again.Token(), first.Token())
		}
		want(t, again.Release(), nil)
	})
	synctest.Test(t, func(t *testing.T) {
		l := openPlain(t, dibsmem.New())
		for range 2000 {
			first, ctx, err := l.Acquire(t.Context(), "k")
			want(t, err, nil)
			var both sync.WaitGroup
			both.Go(func() { want(t, first.Release(), nil) })
			both.Go(func() {
				again, _, err := l.Acquire(context.WithoutCancel(ctx), "k", dibs.Reenter())
				want(t, err, nil)
				want(t, again.Release(), nil)
			})
			both.Wait()
		}
		want(t, l.Shutdown(t.Context()), nil)
	})
}

func TestReenterWhenNothingIsHeldIsAnAcquire(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		err := h.Do(t.Context(), "k", func(ctx context.Context) error {
			return h.Do(ctx, "k", func(ctx context.Context) error {
				return h.Do(ctx, "k", func(ctx context.Context) error { return ctx.Err() }, dibs.Reenter())
			}, dibs.Reenter())
		}, dibs.Reenter())
		want(t, err, nil)
		if h.left(t, "k") != 0 {
			t.Error("held")
		}
		// somebody else's context does not get in
		lock, _ := h.take(t)
		_, _, err = h.TryAcquire(t.Context(), "k", dibs.Reenter())
		want(t, err, dibs.ErrBusy)
		want(t, lock.Release(), nil)
	})
}
