package dibs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsmem"
)

func newStore() *dibsmem.Store { return dibsmem.New() }

func TestB08_MaxHold(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		start := time.Now()
		lock, ctx := h.take(t, dibs.TTL(6*time.Second), dibs.MaxHold(10*time.Second))
		<-ctx.Done()
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("told after %s", took)
		}
		want(t, context.Cause(ctx), dibs.ErrMaxHold)
		want(t, lock.Err(), dibs.ErrMaxHold)
		if h.left(t, "k") == 0 {
			t.Error("released under work that still runs")
		}
		other := open(t, h.store, dibs.Config{})
		theirs, _ := other.take(t)
		if took := time.Since(start); took > 16*time.Second || took < 12*time.Second {
			t.Errorf("passed on after %s", took)
		}
		err := lock.Release()
		want(t, err, dibs.ErrMaxHold, dibs.ErrLost) // it has lapsed as well
		want(t, theirs.Err(), nil)
		want(t, theirs.Verify(t.Context()), nil)
		want(t, theirs.Release(), nil)
		want(t, other.Shutdown(t.Context()), nil)
		if got := h.heard(); got != "waited, acquired, max hold, released" {
			t.Error(got)
		}
		if h.logged("max hold") != 1 {
			t.Error("no alarm in the log")
		}
		want(t, h.event("max hold").Err, dibs.ErrMaxHold)
	})
}

func TestAfterMaxHoldTheEndOfTheWorkFreesTheKey(t *testing.T) {
	bubble(t, dibs.Config{MaxHold: 10 * time.Second}, func(t *testing.T, h *house) {
		err := h.Do(t.Context(), "k", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		want(t, err, dibs.ErrMaxHold)
		wantNot(t, err, dibs.ErrLost)
		time.Sleep(10 * time.Millisecond)
		if h.left(t, "k") != 0 {
			t.Error("still held")
		}
		// 0 lifts the limit for one call
		err = h.Do(t.Context(), "k", func(ctx context.Context) error { time.Sleep(time.Hour); return ctx.Err() }, dibs.MaxHold(0))
		want(t, err, nil)
	})
}

func TestHoldAlarm(t *testing.T) {
	for _, c := range []struct {
		alarm time.Duration
		want  int
	}{{0, 3}, {time.Minute, 5}, {-1, 0}} {
		bubble(t, dibs.Config{HoldAlarm: c.alarm}, func(t *testing.T, h *house) {
			lock, _ := h.take(t, dibs.Note("report"))
			time.Sleep(25 * time.Minute)
			if got := h.logged("held for long"); got != c.want {
				t.Errorf("alarm %s: %d in 25 min, want %d", c.alarm, got, c.want)
			}
			want(t, lock.Err(), nil) // an alarm ends nothing
			want(t, lock.Release(), nil)
		})
	}
}

func TestMinHold(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		start := time.Now()
		lock, _ := h.take(t, dibs.MinHold(10*time.Second), dibs.TTL(6*time.Second))
		if h.left(t, "k") != 10*time.Second {
			t.Errorf("stored for %s", h.left(t, "k"))
		}
		time.Sleep(2 * time.Second)
		want(t, lock.Release(), nil)
		if time.Since(start) != 2*time.Second {
			t.Error("Release waited")
		}
		if h.left(t, "k") != 8*time.Second {
			t.Errorf("left %s", h.left(t, "k"))
		}
		_, _, err := h.TryAcquire(t.Context(), "k")
		want(t, err, dibs.ErrBusy)
		b, _ := errors.AsType[*dibs.BusyError](err)
		if b.Left != 8*time.Second {
			t.Errorf("%+v", b)
		}
		lock, _ = h.take(t) // waits
		if took := time.Since(start); took < 10*time.Second || took > 10100*time.Millisecond {
			t.Errorf("passed on after %s", took)
		}
		want(t, lock.Release(), nil)

		lock, _ = h.take(t, dibs.MinHold(time.Second))
		time.Sleep(3 * time.Second)
		want(t, lock.Release(), nil)
		if h.left(t, "k") != 0 {
			t.Error("kept though the min hold was over")
		}
	})
}

func TestMinHoldLongerThanTheTTLIsNotShortenedByRenewal(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		lock, _ := h.take(t, dibs.MinHold(time.Minute), dibs.TTL(6*time.Second))
		time.Sleep(20 * time.Second)
		if h.left(t, "k") != 40*time.Second {
			t.Errorf("left %s", h.left(t, "k"))
		}
		want(t, lock.Err(), nil)
		want(t, lock.Release(), nil)
		if h.left(t, "k") != 40*time.Second {
			t.Errorf("left %s", h.left(t, "k"))
		}
		time.Sleep(time.Minute) // and nobody renews it
		if h.left(t, "k") != 0 {
			t.Error("renewed after its release")
		}
	})
}

func TestB24_TheLockOutlivesTheCallersContext(t *testing.T) {
	bubble(t, dibs.Config{TTL: 2 * time.Second}, func(t *testing.T, h *house) {
		ctx, cancel := context.WithCancel(t.Context())
		other := open(t, h.store, dibs.Config{})
		time.AfterFunc(time.Second, cancel)
		err := h.Do(ctx, "k", func(ctx context.Context) error {
			<-ctx.Done()
			for range 12 {
				time.Sleep(500 * time.Millisecond)
				if h.left(t, "k") < 1200*time.Millisecond {
					t.Error("not renewed while the work ends")
				}
				ran, err := other.TryDo(t.Context(), "k", func(context.Context) error { return nil })
				if ran || err != nil {
					t.Error(ran, err)
				}
			}
			return nil
		})
		want(t, err, nil)
		want(t, other.Shutdown(t.Context()), nil)
	})
}
