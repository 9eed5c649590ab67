package dibs_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsmem"
)

// TestShutdownFromWithinAnEvent waits for the works, and not for the function that calls it.
func TestShutdownFromWithinAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := dibsmem.New()
		var l *dibs.Locker
		var told []string
		done := make(chan error, 1)
		l, err := dibs.New(store, &dibs.Config{Logger: slog.New(slog.DiscardHandler), Events: dibs.Events{
			Lost:     func(dibs.Event) { done <- l.Shutdown(context.Background()) },
			Released: func(e dibs.Event) { told = append(told, e.Key) },
		}})
		want(t, err, nil)
		lock, ctx, err := l.Acquire(t.Context(), "k")
		want(t, err, nil)
		other, work, err := l.Acquire(t.Context(), "other")
		want(t, err, nil)
		store.Expire("k")
		<-ctx.Done()
		want(t, lock.Release(), dibs.ErrLost)
		<-work.Done()
		want(t, context.Cause(work), dibs.ErrClosed)
		synctest.Wait()
		select {
		case <-done:
			t.Error("it did not wait for the work")
		default:
		}
		began := time.Now()
		want(t, other.Release(), nil)
		select {
		case err := <-done:
			want(t, err, nil)
		case <-time.After(time.Hour):
			t.Fatal("it waits for itself")
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it waited %s for itself", took)
		}
		synctest.Wait()
		if got := strings.Join(told, " "); got != "k other" {
			t.Errorf("releases that were told of afterwards: %q", got)
		}
	})
}

// TestShutdownAndAFunctionThatBlocks: it costs a moment, and is no failure. What was still to be told is told when it goes on.
func TestShutdownAndAFunctionThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		released := false
		l, err := dibs.New(dibsmem.New(), &dibs.Config{Events: dibs.Events{
			Acquired: func(dibs.Event) { <-over }, Released: func(dibs.Event) { released = true },
		}})
		want(t, err, nil)
		want(t, l.Do(t.Context(), "k", func(context.Context) error { return nil }), nil)
		began := time.Now()
		shut := make(chan error, 1)
		go func() { shut <- l.Shutdown(context.Background()) }()
		select {
		case err := <-shut:
			want(t, err, nil)
		case <-time.After(time.Hour):
			t.Error("it waits for a function that does not return")
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("took %s", took)
		}
		close(over)
		synctest.Wait()
		if !released {
			t.Error("what was still to be told was dropped")
		}
	})
}

// TestShutdownWaitsForWhatIsStillToBeTold, as long as that gets on.
func TestShutdownWaitsForWhatIsStillToBeTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := 0
		l, err := dibs.New(dibsmem.New(), &dibs.Config{Events: dibs.Events{
			Released: func(dibs.Event) { time.Sleep(500 * time.Millisecond); released++ },
		}})
		want(t, err, nil)
		for i := range 100 {
			want(t, l.Do(t.Context(), fmt.Sprint("k", i), func(context.Context) error { return nil }), nil)
		}
		want(t, l.Shutdown(t.Context()), nil)
		if released != 100 {
			t.Errorf("%d of 100 told", released)
		}
	})
}

// TestShutdownWithoutTime leaves a moment to what is still to be told.
func TestShutdownWithoutTime(t *testing.T) {
	for takes, told := range map[time.Duration]int32{10 * time.Millisecond: 3, time.Hour: 0} {
		synctest.Test(t, func(t *testing.T) {
			var released atomic.Int32
			l, err := dibs.New(dibsmem.New(), &dibs.Config{Events: dibs.Events{Released: func(dibs.Event) { time.Sleep(takes); released.Add(1) }}})
			want(t, err, nil)
			for range 3 {
				want(t, l.Do(t.Context(), "k", func(context.Context) error { return nil }), nil)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			start := time.Now()
			if err := l.Shutdown(ctx); err != nil {
				want(t, err, context.Canceled)
			}
			if took, n := time.Since(start), released.Load(); n != told || took > 200*time.Millisecond {
				t.Errorf("%d of 3 were told, after %s", n, took)
			}
			time.Sleep(4 * takes) // what is left is told after the end
		})
	}
}

// TestB01_NoLossIsDrownedByRenewals: what a slow function cannot keep up with is left out where it matters least.
func TestB01_NoLossIsDrownedByRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const leases, losses = 2000, 30
		store := dibsmem.New()
		renewed := 0
		var lost []string
		l, err := dibs.New(store, &dibs.Config{TTL: 3 * time.Second, Logger: slog.New(slog.DiscardHandler), Events: dibs.Events{
			Renewed: func(dibs.Event) { renewed++; time.Sleep(5 * time.Millisecond) },
			Lost:    func(e dibs.Event) { lost = append(lost, e.Key) },
		}})
		want(t, err, nil)
		var locks []*dibs.Lock
		for i := range leases {
			lock, _, err := l.Acquire(t.Context(), fmt.Sprint("k", i))
			want(t, err, nil)
			locks = append(locks, lock)
		}
		time.Sleep(30 * time.Second) // 2,000 renewals a second, of which 200 can be told
		var expired []string
		for _, lock := range locks[:losses] {
			time.Sleep(4 * time.Second)
			store.Expire(lock.Key())
			expired = append(expired, lock.Key())
		}
		time.Sleep(3 * time.Second)
		for _, lock := range locks {
			_ = lock.Release()
		}
		want(t, l.Shutdown(t.Context()), nil)
		if strings.Join(lost, " ") != strings.Join(expired, " ") {
			t.Errorf("lost: %q\ntold: %q", expired, lost)
		}
		if renewed < 10_000 {
			t.Errorf("only %d renewals were told", renewed)
		}
	})
}

// TestB25_GoexitInAnEvent, as t.FailNow does it, ends the one call.
func TestB25_GoexitInAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := 0
		l, err := dibs.New(dibsmem.New(), &dibs.Config{Events: dibs.Events{
			Acquired: func(dibs.Event) { runtime.Goexit() }, Released: func(dibs.Event) { released++ },
		}})
		want(t, err, nil)
		for range 3 {
			want(t, l.Do(t.Context(), "k", func(context.Context) error { return nil }), nil)
		}
		want(t, l.Shutdown(t.Context()), nil)
		if released != 3 {
			t.Errorf("%d of 3 releases were told", released)
		}
	})
}

// badHandler is a log that panics.
type badHandler struct{ slog.Handler }

func (badHandler) Handle(context.Context, slog.Record) error { panic("no log") }

// TestB25_ALoggerThatPanics loses its record, and the process lives. The test's own is at stake.
func TestB25_ALoggerThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alarms := 0
		l, err := dibs.New(dibsmem.New(), &dibs.Config{
			HoldAlarm: time.Second, Logger: slog.New(badHandler{slog.NewTextHandler(io.Discard, nil)}),
			Events: dibs.Events{
				Acquired:  func(dibs.Event) { panic("which is to be logged") },
				HoldAlarm: func(dibs.Event) { alarms++ },
			},
		})
		want(t, err, nil)
		want(t, l.Do(t.Context(), "k", func(context.Context) error { time.Sleep(1500 * time.Millisecond); return nil }), nil)
		want(t, l.Shutdown(t.Context()), nil)
		if alarms != 1 {
			t.Errorf("%d alarms were told", alarms)
		}
	})
}
