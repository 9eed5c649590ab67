package dibs_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

func TestShutdownWaitsForTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, newStore(), dibs.Config{TTL: 2 * time.Second})
		var wg sync.WaitGroup
		start := time.Now()
		wg.Go(func() {
			err := h.Do(t.Context(), "k", func(ctx context.Context) error {
				<-ctx.Done()
				want(t, context.Cause(ctx), dibs.ErrClosed)
				for range 10 {
					time.Sleep(500 * time.Millisecond)
					if h.left(t, "k") < 1200*time.Millisecond {
						t.Error("not renewed while the work ends")
					}
				}
				return nil
			})
			want(t, err, nil)
		})
		synctest.Wait()
		wg.Go(func() {
			_, _, err := h.Acquire(t.Context(), "k")
			want(t, err, dibs.ErrClosed)
		})
		synctest.Wait()
		wg.Go(func() { want(t, h.Shutdown(t.Context()), nil) }) // more than once is fine
		want(t, h.Shutdown(t.Context()), nil)
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("took %s", took)
		}
		wg.Wait()
		_, _, err := h.Acquire(t.Context(), "k")
		want(t, err, dibs.ErrClosed)
		_, err = h.Locks(t.Context(), "")
		want(t, err, dibs.ErrClosed)
		want(t, h.Ping(t.Context()), dibs.ErrClosed)
	})
}

func TestShutdownLeavesToLapseWhatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, newStore(), dibs.Config{TTL: 2 * time.Second})
		lock, ctx := h.take(t)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		want(t, h.Shutdown(short), context.DeadlineExceeded)
		if took := time.Since(start); took < time.Second || took > 1200*time.Millisecond {
			t.Errorf("took %s", took)
		}
		want(t, context.Cause(ctx), dibs.ErrClosed)
		if h.left(t, "k") == 0 {
			t.Error("released under work that still runs")
		}
		time.Sleep(2 * time.Second)
		if h.left(t, "k") != 0 {
			t.Error("did not lapse")
		}
		want(t, lock.Release(), dibs.ErrClosed)
		want(t, lock.Release(), dibs.ErrReleased)
	})
}

// TestShutdownGivesUpARelease: a release that is under way when Shutdown gives up does not go on in the background, and does not say so.
func TestShutdownGivesUpARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, newStore(), dibs.Config{})
		lock, _ := h.take(t)
		h.driver.OnRelease(func(ctx context.Context, _ dibsdriver.ReleaseParams) error {
			<-ctx.Done()
			return ctx.Err()
		})
		released := make(chan error, 1)
		go func() { released <- lock.Release() }()
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		want(t, h.Shutdown(short), context.DeadlineExceeded)
		err := <-released
		want(t, err, dibs.ErrClosed)
		want(t, err, dibs.ErrUnavailable)
		if strings.Contains(err.Error(), "background") {
			t.Error(err)
		}
	})
}

func TestShutdownDoesNotHangOnADriverThatDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, newStore(), dibs.Config{})
		over := make(chan struct{})
		h.driver.OnAcquire(func(context.Context, dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
			<-over
			return dibsdriver.AcquireResult{}, errors.New("reset")
		})
		go h.Acquire(t.Context(), "k")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		want(t, h.Shutdown(ctx), context.DeadlineExceeded)
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("took %s", took)
		}
		close(over)
	})
}

func TestLocksAndBreak(t *testing.T) {
	bubble(t, dibs.Config{Prefix: "app:", Name: "worker 7"}, func(t *testing.T, h *house) {
		other := open(t, h.store, dibs.Config{})
		foreign, _, err := other.Acquire(t.Context(), "not-ours")
		want(t, err, nil)
		lock, ctx := h.take(t, dibs.Note("nightly"))
		time.Sleep(time.Second)
		infos, err := h.Locks(t.Context(), "")
		want(t, err, nil)
		if len(infos) != 1 {
			t.Fatal(infos)
		}
		i := infos[0]
		if i.Key != "k" || i.Holder != "worker 7" || i.Note != "nightly" || i.Token != lock.Token() ||
			i.ExpiresIn != 29*time.Second || time.Since(i.Since) != time.Second || i.Since.Location() != time.UTC {
			t.Errorf("%+v", i)
		}
		if none, _ := h.Locks(t.Context(), "x"); len(none) != 0 {
			t.Error(none)
		}

		_, err = h.Break(t.Context(), "k", lock.Token()-1)
		want(t, err, dibs.ErrBusy)
		if !strings.Contains(err.Error(), "worker 7") || !strings.Contains(err.Error(), "nightly") {
			t.Error(err)
		}
		_, err = h.Break(t.Context(), "free", lock.Token())
		want(t, err, dibs.ErrReleased)
		for _, token := range []int64{0, -1} {
			if _, err = h.BreakNow(t.Context(), "k", token); err == nil || errors.Is(err, dibs.ErrBusy) {
				t.Error("token", token, err)
			}
		}
		_, err = h.Break(t.Context(), "", 1)
		want(t, err, dibs.ErrInvalidKey)

		broken, err := h.Break(t.Context(), "k", lock.Token())
		want(t, err, nil)
		if broken.Holder != "worker 7" {
			t.Errorf("%+v", broken)
		}
		want(t, lock.Err(), nil)
		<-ctx.Done()
		want(t, context.Cause(ctx), dibs.ErrLost)
		if left := h.left(t, "app:k"); left == 0 || left > 20*time.Second {
			t.Errorf("left %s: it should pass on at its expiry", left)
		}
		want(t, lock.Release(), dibs.ErrLost)

		lock, ctx = h.take(t)
		start := time.Now()
		_, err = h.BreakNow(t.Context(), "k", lock.Token()+3) // a handoff's token will do
		want(t, err, nil)
		theirs, _, err := other.Acquire(t.Context(), "app:k")
		want(t, err, nil)
		if time.Since(start) != 0 || theirs.Token() <= lock.Token() {
			t.Error("not free at once, or the token does not rise")
		}
		<-ctx.Done()
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("the holder learned of it after %s", took)
		}
		want(t, lock.Release(), dibs.ErrLost)
		want(t, theirs.Release(), nil)
		want(t, foreign.Release(), nil)
		want(t, other.Shutdown(t.Context()), nil)
	})
}

func TestQuestionsDoNotHang(t *testing.T) {
	bubble(t, dibs.Config{RequestTimeout: 3 * time.Second}, func(t *testing.T, h *house) {
		h.store.Fail(errors.New("down"))
		_, err := h.Locks(t.Context(), "")
		want(t, err, dibs.ErrUnavailable)
		want(t, h.Ping(t.Context()), dibs.ErrUnavailable)
		h.store.Fail(nil)
		want(t, h.Ping(t.Context()), nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = h.Locks(ctx, "")
		want(t, err, context.Canceled)
	})
}
