package dibs_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

var errWork = errors.New("the work failed")

func TestDo(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		err := h.Do(t.Context(), "k", func(ctx context.Context) error {
			if lock, ok := dibs.FromContext(ctx, "k"); !ok || lock.Key() != "k" || lock.Err() != nil {
				t.Error("the work's context does not know its lock")
			}
			if h.left(t, "k") != 30*time.Second {
				t.Error("not held")
			}
			return errWork
		})
		if err != errWork || h.left(t, "k") != 0 {
			t.Errorf("%v, left %s", err, h.left(t, "k"))
		}
		want(t, h.Do(t.Context(), "k", func(context.Context) error { return nil }), nil)
	})
}

func TestB23_BothErrorsAreVisible(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		defer h.store.Fail(nil)
		down := errors.New("down")
		err := h.Do(t.Context(), "a", func(context.Context) error { h.store.Fail(down); return errWork })
		want(t, err, errWork, dibs.ErrUnavailable, down)
		h.store.Fail(nil)
		err = h.Do(t.Context(), "b", func(context.Context) error { h.store.Fail(down); return nil })
		want(t, err, dibs.ErrUnavailable)
		h.store.Fail(nil)
		ctx, cancel := context.WithCancel(t.Context())
		err = h.Do(ctx, "c", func(ctx context.Context) error { cancel(); h.store.Fail(down); return ctx.Err() })
		want(t, err, context.Canceled, dibs.ErrUnavailable)
	})
}

func TestB25_PanicAndGoexitRelease(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		func() {
			defer func() {
				if p := recover(); p != "boom" {
					t.Errorf("recovered %v", p)
				}
			}()
			h.Do(t.Context(), "k", func(context.Context) error { panic("boom") })
		}()
		if h.left(t, "k") != 0 {
			t.Error("held after a panic")
		}
		var wg sync.WaitGroup
		wg.Go(func() { h.Do(t.Context(), "k", func(context.Context) error { runtime.Goexit(); return nil }) })
		wg.Wait()
		if h.left(t, "k") != 0 {
			t.Error("held after Goexit")
		}
	})
}

func TestB25_NilAndZeroLocks(t *testing.T) {
	for _, lock := range []*dibs.Lock{nil, {}} {
		want(t, lock.Release(), dibs.ErrReleased)
		want(t, lock.Err(), dibs.ErrReleased)
		want(t, lock.Verify(t.Context()), dibs.ErrReleased)
		if lock.Key() != "" || lock.Token() != 0 || lock.Remaining() != 0 {
			t.Error("a nil lock knows something")
		}
	}
}

func TestDoReportsALossEvenIfTheWorkDoesNot(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		err := h.Do(t.Context(), "k", func(ctx context.Context) error {
			h.store.Expire("k")
			<-ctx.Done()
			want(t, context.Cause(ctx), dibs.ErrLost)
			return nil
		})
		want(t, err, dibs.ErrLost)
		lost := errors.New("lost")
		err = h.Do(t.Context(), "k", func(ctx context.Context) error {
			h.store.Expire("k")
			<-ctx.Done()
			return errors.Join(lost, context.Cause(ctx))
		})
		want(t, err, lost, dibs.ErrLost)
		err = h.Do(t.Context(), "k", func(ctx context.Context) error {
			h.store.Expire("k") // and nobody has noticed when it ends
			return nil
		})
		want(t, err, dibs.ErrLost)
	})
}

// TestB23_WhatTheWorkSaysHidesNoLoss: it may have returned the cause of its context's end, or another lock's.
func TestB23_WhatTheWorkSaysHidesNoLoss(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		for name, says := range map[string]func(ctx context.Context) error{
			"nothing":       func(context.Context) error { return nil },
			"the cause":     context.Cause,
			"more":          func(ctx context.Context) error { return fmt.Errorf("%w: %w", errWork, context.Cause(ctx)) },
			"just its name": func(context.Context) error { return dibs.ErrMaxHold },
			"its text":      func(ctx context.Context) error { return errors.New(context.Cause(ctx).Error()) },
		} {
			err := h.Do(t.Context(), "k", func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Minute) // beyond the end of the lease
				return says(ctx)
			}, dibs.MaxHold(time.Second), dibs.TTL(3*time.Second))
			want(t, err, dibs.ErrMaxHold, dibs.ErrLost)
			if n := strings.Count(err.Error(), `max hold exceeded: "k"`); n > 1 && name != "more" {
				t.Errorf("the work says %s, and the same is told %d times: %v", name, n, err)
			}
			if name == "more" {
				want(t, err, errWork)
			}
		}

		lose := func(ctx context.Context, key string) error {
			h.store.Expire(key)
			<-ctx.Done()
			return context.Cause(ctx)
		}
		for _, own := range []error{dibs.ErrUnavailable, errWork} {
			err := h.Do(t.Context(), "k", func(ctx context.Context) error { return fmt.Errorf("%w: %w", own, lose(ctx, "k")) })
			want(t, err, own, dibs.ErrLost)
			if n := strings.Count(err.Error(), `"k"`); n != 1 || !strings.Contains(err.Error(), own.Error()) {
				t.Errorf("%q", err)
			}
		}
		err := h.Do(t.Context(), "outer", func(outer context.Context) error {
			return h.Do(context.WithoutCancel(outer), "inner", func(inner context.Context) error {
				h.store.Expire("outer")
				<-outer.Done()
				return lose(inner, "inner")
			})
		})
		want(t, err, dibs.ErrLost)
		for _, key := range []string{`"inner"`, `"outer"`} {
			if strings.Count(err.Error(), key) != 1 {
				t.Errorf("both were lost, and %s is not named once: %q", key, err)
			}
		}
	})
}

func TestDoLetsItsWorkRelease(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		err := h.Do(t.Context(), "k", func(ctx context.Context) error {
			lock, _ := dibs.FromContext(ctx, "k")
			return lock.Release()
		})
		want(t, err, nil)
	})
}

func TestTryDo(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		ran, err := h.TryDo(t.Context(), "k", func(ctx context.Context) error {
			// A busy key inside of the work is the work's error.
			ran, err := h.TryDo(t.Context(), "k", func(context.Context) error { return nil })
			if ran || err != nil {
				t.Errorf("busy: %v, %v", ran, err)
			}
			_, _, err = h.TryAcquire(t.Context(), "k")
			return err
		})
		if !ran {
			t.Error("did not run")
		}
		want(t, err, dibs.ErrBusy)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		ran, err = h.TryDo(ctx, "k", func(context.Context) error { return nil })
		if ran {
			t.Error("ran")
		}
		want(t, err, context.Canceled)
		h.store.Fail(errors.New("down"))
		ran, err = h.TryDo(t.Context(), "k", func(context.Context) error { return nil })
		if ran {
			t.Error("ran without a lock")
		}
		want(t, err, dibs.ErrUnavailable)
		h.store.Fail(nil)
	})
}

func TestValue(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		n, err := dibs.Value(t.Context(), h.Locker, "k", func(context.Context) (int, error) { return 7, errWork })
		if n != 7 || err != errWork {
			t.Error(n, err)
		}
		lock, _ := h.take(t)
		n, err = dibs.Value(t.Context(), h.Locker, "k", func(context.Context) (int, error) { return 7, nil }, dibs.MaxWait(0))
		if n != 0 {
			t.Error(n)
		}
		want(t, err, dibs.ErrBusy)
		want(t, lock.Release(), nil)
	})
}

func TestReleaseTwice(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		lock, ctx := h.take(t)
		want(t, lock.Release(), nil)
		want(t, lock.Release(), dibs.ErrReleased)
		want(t, lock.Err(), dibs.ErrReleased)
		want(t, lock.Verify(t.Context()), dibs.ErrReleased)
		want(t, context.Cause(ctx), dibs.ErrReleased)
		if lock.Remaining() != 0 {
			t.Error("remaining")
		}
	})
}

func TestReleaseOfWhatIsNotOursAnyMore(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		lock, _ := h.take(t)
		h.store.Expire("k")
		other := open(t, h.store, dibs.Config{})
		theirs, _ := other.take(t)
		want(t, lock.Release(), dibs.ErrLost)
		want(t, lock.Release(), dibs.ErrReleased)
		if theirs.Err() != nil || h.left(t, "k") != 30*time.Second {
			t.Error("the other's lock was touched")
		}
		if theirs.Token() <= lock.Token() {
			t.Errorf("token %d after %d", theirs.Token(), lock.Token())
		}
		want(t, theirs.Release(), nil)
		want(t, other.Shutdown(t.Context()), nil)
	})
}

func TestB19_ReleaseNeedsNoLiveContext(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		ctx, cancel := context.WithCancel(t.Context())
		lock, work, err := h.Acquire(ctx, "k")
		want(t, err, nil)
		cancel()
		want(t, work.Err(), context.Canceled)
		time.Sleep(2 * time.Minute)
		if h.left(t, "k") < 20*time.Second {
			t.Error("renewal ended with the caller's context")
		}
		want(t, lock.Err(), nil)
		want(t, lock.Release(), nil)
		if h.left(t, "k") != 0 {
			t.Error("held")
		}
	})
}

func TestS2_AReleaseWhoseReplyIsLostIsNeverALoss(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		lock, _ := h.take(t)
		h.driver.OnRelease(func(ctx context.Context, p dibsdriver.ReleaseParams) error {
			h.store.Release(ctx, p)
			return errors.New("reset")
		})
		err := lock.Release()
		want(t, err, dibs.ErrUnavailable)
		wantNot(t, err, dibs.ErrLost)
		h.driver.OnRelease(nil)
	})
}

func TestVerifyOvertakenByRelease(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		lock, _ := h.take(t)
		h.driver.OnRenew(func(ctx context.Context, l []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			time.Sleep(time.Second)
			return h.store.Renew(ctx, l)
		})
		time.AfterFunc(time.Second/2, func() { want(t, lock.Release(), nil) })
		want(t, lock.Verify(t.Context()), dibs.ErrReleased)
	})
}
