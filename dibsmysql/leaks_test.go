package dibsmysql

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// TestNothingIsLeft: goroutines, connections and server threads are back where they were, also after requests that were abandoned.
func TestNothingIsLeft(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		warm := b.driver(t, "")
		owner, _ := take(t, warm, "k", time.Minute)
		release(t, warm, "k", owner)
		unlock := b.lockRow(t, "k")
		before := runtime.NumGoroutine()
		db := opened(t, b.dsn(b.App, b.database, ""))
		d := New(db, nil)
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			_, err := d.Acquire(ctx, params("k", time.Minute))
			cancel()
			if err == nil {
				t.Fatal("a locked row was changed")
			}
		}
		began := time.Now()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("closing took %s", took)
		}
		db.Close()
		eventually(t, "goroutines are back", func() bool { return runtime.NumGoroutine() <= before })
		eventually(t, "threads are back", func() bool { return b.threads(t) == 0 })
		if took := time.Since(began); took > time.Second {
			t.Errorf("a statement stayed for %s", took)
		}
		unlock()
	})
}

// TestClosedWhileWaiting: Close comes back when the calls under way have, and those end with their contexts.
func TestClosedWhileWaiting(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		d := New(b.pool(t, ""), nil)
		owner, _ := take(t, d, "k", time.Minute)
		unlock := b.lockRow(t, "k")
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- d.Release(ctx, dibsdriver.ReleaseParams{Key: "k", Owner: owner}) }()
		eventually(t, "it waits", func() bool { return b.threads(t) == 1 })
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; err == nil || dibsdriver.FateOf(err) != dibsdriver.FateUnknown {
			t.Errorf("%v, fate %v", err, dibsdriver.FateOf(err))
		}
		eventually(t, "nothing of it is left in the server", func() bool { return b.threads(t) == 0 })
		unlock()
		if _, is, _ := b.peek(t, "k"); is != owner {
			t.Errorf("a ghost released it: %q", is)
		}
	})
}

// TestALateAnswerLeavesNoBaton: an acquisition that was given up, and took effect after that, is released, and its baton with it.
func TestALateAnswerLeavesNoBaton(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		l := b.locker(t, "", nil)
		if err := l.Do(within(t), "k", func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		d := b.driver(t, "")
		owner, _ := take(t, d, "other", time.Minute) // so that it knows the server
		release(t, d, "other", owner)
		for range 5 {
			unlock := b.lockRow(t, "k")
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			time.AfterFunc(305*time.Millisecond, unlock)
			if _, _, err := l.Acquire(ctx, "k"); !errors.Is(err, dibs.ErrUnavailable) {
				t.Errorf("a locked row: %v", err)
			}
			cancel()
			eventually(t, "the row is free", func() bool { _, is, _ := b.peek(t, "k"); return is == "" })
			time.Sleep(3 * claimAfter) // in which a baton would be claimed
			eventually(t, "the baton is free", func() bool { return b.batonFree(t, d, "k") })
		}
	})
}
