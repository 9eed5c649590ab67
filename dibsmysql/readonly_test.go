package dibsmysql

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
)

// TestFact33_B47_ReadOnlyUnderLoad: a server is set read_only while callers hold, take and wait, as a demotion does it. Nobody is told "busy" of a key that
// is free; those who wait go on waiting; those who hold keep what they hold for as long as its time runs, and are told when it has run out; and
// all goes on by itself when the server takes writes again.
func TestFact33_B47_ReadOnlyUnderLoad(t *testing.T) {
	t.Parallel()
	onBothAlone(t, nil, func(t *testing.T, b *bed) {
		const outage = 3 * time.Second
		l, other := b.client(t, b.pool(t, ""), 2*time.Second), b.client(t, b.pool(t, ""), 2*time.Second)
		long, longWork, err := l.Acquire(t.Context(), "long", dibs.TTL(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		short, shortWork, err := l.Acquire(t.Context(), "short")
		if err != nil {
			t.Fatal(err)
		}
		shortEnded := make(chan time.Time, 1)
		context.AfterFunc(shortWork, func() { shortEnded <- time.Now() })

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		var load readOnlyLoad
		for i := range 8 { // each has a key to itself
			w := []*dibs.Locker{l, other}[i%2]
			all.Go(func() { load.work(ctx, t, w, fmt.Sprint("key ", i)) })
		}
		type had struct {
			key string
			at  time.Time
			err error
		}
		waits := make(chan had, 12)
		for i := range cap(waits) {
			key := []string{"long", "short"}[i%2]
			all.Go(func() {
				lock, _, err := other.Acquire(ctx, key)
				waits <- had{key, time.Now(), err}
				_ = lock.Release()
			})
		}
		eventually(t, "there is load", func() bool { return load.before.Load() > 50 })

		load.readOnly.Store(true)
		b.must(t, b.admin, "SET GLOBAL read_only = ON")
		set := time.Now()
		b.readOnlyIsSaid(t, l)
		var lostAt time.Time
		select {
		case lostAt = <-shortEnded:
		case <-time.After(10 * time.Second):
			t.Fatal("the short lease's holder was not told")
		}
		if err := short.Err(); !errors.Is(err, dibs.ErrLost) {
			t.Errorf("the short lease: %v", err)
		}
		time.Sleep(time.Until(set.Add(outage)))
		if len(waits) > 0 {
			h := <-waits
			t.Fatalf("a waiter for %q came back while nothing can be written: %v", h.key, h.err)
		}
		if long.Err() != nil || longWork.Err() != nil {
			t.Errorf("the long lease had half a minute left: %v", long.Err())
		}
		b.must(t, b.admin, "SET GLOBAL read_only = OFF")
		load.readOnly.Store(false)
		writable := time.Now()
		if err := long.Verify(within(t)); err != nil {
			t.Errorf("the long lease: %v", err)
		}
		if err := long.Release(); err != nil {
			t.Errorf("releasing the long lease: %v", err)
		}
		for range cap(waits) {
			select {
			case h := <-waits:
				switch {
				case h.err != nil:
					t.Errorf("a waiter for %q: %v", h.key, h.err)
				case h.key == "short" && !lostAt.Before(h.at):
					t.Error("another had the short lease before its holder was told")
				}
			case <-time.After(20 * time.Second):
				t.Fatal("waiters do not go on")
			}
		}
		if took := time.Since(writable); took > 5*time.Second+2*time.Second {
			t.Errorf("the last waiter had its key %s after the server took writes again", took)
		}
		eventually(t, "the load goes on", func() bool { return load.after.Load() > 50 })
		cancel()
		all.Wait()
		if load.refused.Load() == 0 {
			t.Error("nothing was refused")
		}
		if err := short.Release(); !errors.Is(err, dibs.ErrLost) {
			t.Errorf("releasing the short lease: %v", err)
		}
	})
}

// readOnlyIsSaid requires that whatever is asked of a read-only server is told so, by l and by who has not been there before.
func (b *bed) readOnlyIsSaid(t *testing.T, l *dibs.Locker) {
	t.Helper()
	fresh := b.client(t, b.pool(t, ""), 2*time.Second)
	for what, f := range map[string]func() error{
		"a first contact":      func() error { _, _, err := fresh.Acquire(t.Context(), "new"); return err },
		"a key of its own":     func() error { _, _, err := l.Acquire(t.Context(), "new"); return err },
		"a key that is held":   func() error { _, _, err := fresh.TryAcquire(t.Context(), "long"); return err },
		"ping":                 func() error { return l.Ping(t.Context()) },
		"ping of a new client": func() error { return fresh.Ping(t.Context()) },
	} {
		began := time.Now()
		if err := f(); !errors.Is(err, dibs.ErrReadOnly) || !errors.Is(err, dibs.ErrUnavailable) || errors.Is(err, dibs.ErrBusy) {
			t.Errorf("%s: %v", what, err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%s took %s", what, took)
		}
	}
}

// readOnlyLoad is what workers under load came by, before a server was read-only, then, and after it.
type readOnlyLoad struct {
	readOnly               atomic.Bool // set before and reset after the server is
	before, refused, after atomic.Int32
}

// work takes a key of its own again and again.
func (r *readOnlyLoad) work(ctx context.Context, t *testing.T, l *dibs.Locker, key string) {
	for ctx.Err() == nil {
		during := r.readOnly.Load()
		ran, err := l.TryDo(ctx, key, func(context.Context) error { return nil })
		switch {
		case ctx.Err() != nil:
		case err == nil && ran && !during && r.refused.Load() == 0:
			r.before.Add(1)
		case err == nil && ran && !during:
			r.after.Add(1)
		case err == nil && !ran:
			// A key of its own is busy only by a release that is still under way, which a read-only server has refused.
			if !during && r.refused.Load() == 0 {
				t.Errorf("%s is busy, which nobody else takes", key)
			}
		case errors.Is(err, dibs.ErrReadOnly) && errors.Is(err, dibs.ErrUnavailable) && !errors.Is(err, dibs.ErrBusy):
			r.refused.Add(1)
		case err != nil:
			t.Errorf("%s: %v", key, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
