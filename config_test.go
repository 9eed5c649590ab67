package dibs_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/hooked"
)

func TestB34_Durations(t *testing.T) {
	year := 365 * 24 * time.Hour
	for _, c := range []struct {
		name string
		opt  dibs.Option
		ok   bool
	}{
		{"TTL 0", dibs.TTL(0), false},
		{"TTL -1s", dibs.TTL(-time.Second), false},
		{"TTL 1ns", dibs.TTL(1), false},
		{"TTL 999us", dibs.TTL(999 * time.Microsecond), false},
		{"TTL 49ms", dibs.TTL(49 * time.Millisecond), false},
		{"TTL 50ms", dibs.TTL(50 * time.Millisecond), true},
		{"TTL 1.5s", dibs.TTL(1500 * time.Millisecond), true},
		{"TTL 90s", dibs.TTL(90 * time.Second), true},
		{"TTL 24h", dibs.TTL(24 * time.Hour), true},
		{"TTL 24h+1ns", dibs.TTL(24*time.Hour + 1), false},
		{"TTL 10y", dibs.TTL(10 * year), false},
		{"MaxWait 0", dibs.MaxWait(0), true},
		{"MaxWait -1", dibs.MaxWait(-1), false},
		{"MaxWait 10y", dibs.MaxWait(10 * year), true},
		{"MaxHold 0", dibs.MaxHold(0), true},
		{"MaxHold -1", dibs.MaxHold(-1), false},
		{"MaxHold 10y", dibs.MaxHold(10 * year), true},
		{"MinHold 0", dibs.MinHold(0), true},
		{"MinHold -1", dibs.MinHold(-1), false},
		{"MinHold 24h", dibs.MinHold(24 * time.Hour), true},
		{"MinHold 24h+1ns", dibs.MinHold(24*time.Hour + 1), false},
		{"Note too long", dibs.Note(strings.Repeat("x", 1025)), false},
		{"Note", dibs.Note(strings.Repeat("x", 1024)), true},
		{"Note invalid", dibs.Note("\xff"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
				lock, _, err := h.Acquire(t.Context(), "k", c.opt)
				if ok := err == nil; ok != c.ok {
					t.Errorf("%v", err)
				}
				if err == nil {
					want(t, lock.Release(), nil)
				} else if n, _, _ := h.driver.Counts(); n != 0 {
					t.Error("the store was asked")
				}
				lock, _, err = h.With(c.opt).Acquire(t.Context(), "k2")
				if ok := err == nil; ok != c.ok {
					t.Error("With:", err)
				}
				lock.Release()
			})
		})
	}
}

func TestContradictions(t *testing.T) {
	bubble(t, dibs.Config{Margin: 2 * time.Second}, func(t *testing.T, h *house) {
		_, _, err := h.Acquire(t.Context(), "k", dibs.MinHold(3*time.Second), dibs.MaxHold(2*time.Second))
		if err == nil || !strings.Contains(err.Error(), "MinHold (3s) is longer than MaxHold (2s)") {
			t.Error(err)
		}
		_, _, err = h.Acquire(t.Context(), "k", dibs.TTL(5*time.Second))
		if err == nil || !strings.Contains(err.Error(), "margin") {
			t.Error(err)
		}
		lock, _, err := h.Acquire(t.Context(), "k", dibs.TTL(6*time.Second), dibs.MinHold(time.Second), dibs.MaxHold(time.Second))
		want(t, err, nil)
		if lock.Remaining() != 4*time.Second {
			t.Error(lock.Remaining())
		}
		want(t, lock.Release(), nil)
		time.Sleep(time.Second)
	})
}

func TestMarginsByDefault(t *testing.T) {
	for ttl, margin := range map[time.Duration]time.Duration{
		50 * time.Millisecond: 10 * time.Millisecond,
		time.Second:           100 * time.Millisecond,
		30 * time.Second:      time.Second,
		time.Hour:             3600 * time.Millisecond,
		24 * time.Hour:        86400 * time.Millisecond,
	} {
		bubble(t, dibs.Config{TTL: ttl}, func(t *testing.T, h *house) {
			lock, _ := h.take(t)
			if got := ttl - lock.Remaining(); got != margin {
				t.Errorf("margin of %s: %s, want %s", ttl, got, margin)
			}
			want(t, lock.Release(), nil)
		})
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := dibs.New(nil, nil); err == nil {
		t.Error("a nil driver was taken")
	}
	for name, cfg := range map[string]dibs.Config{
		"TTL":            {TTL: -1},
		"TTL too long":   {TTL: 25 * time.Hour},
		"MaxHold":        {MaxHold: -1},
		"Margin":         {Margin: -1},
		"Margin too big": {Margin: 11 * time.Second},
		"RequestTimeout": {RequestTimeout: -1},
		"Name":           {Name: strings.Repeat("x", 256)},
		"Name invalid":   {Name: "\xff"},
		"Prefix":         {Prefix: strings.Repeat("x", 255)},
		"Prefix invalid": {Prefix: "\xff"},
	} {
		if _, err := dibs.New(newStore(), &cfg); err == nil {
			t.Errorf("%s was taken: %+v", name, cfg)
		}
	}
	// A number whose unit was forgotten is nanoseconds.
	for field, cfg := range map[string]dibs.Config{
		"RequestTimeout": {RequestTimeout: time.Millisecond - 1},
		"HoldAlarm":      {HoldAlarm: 300},
		"Margin":         {Margin: 1},
	} {
		if _, err := dibs.New(newStore(), &cfg); err == nil || !strings.Contains(err.Error(), "Config."+field+" is ") || !strings.Contains(err.Error(), "1ms or more") {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, d := range []time.Duration{24*time.Hour + 1, math.MaxInt64} {
		_, err := dibs.New(newStore(), &dibs.Config{RequestTimeout: d})
		if err == nil || !strings.Contains(err.Error(), "Config.RequestTimeout is "+d.String()) || !strings.Contains(err.Error(), "24h0m0s at most") {
			t.Errorf("RequestTimeout %s: %v", d, err)
		}
	}
	least := dibs.Config{RequestTimeout: time.Millisecond, HoldAlarm: time.Millisecond, Margin: time.Millisecond}
	_, err := dibs.New(newStore(), &least)
	want(t, err, nil)
	d := hooked.New(newStore())
	d.SetLimits(dibsdriver.Limits{Store: "session", SessionTTL: 20 * time.Second})
	_, err = dibs.New(d, &dibs.Config{TTL: 10 * time.Second})
	want(t, err, dibs.ErrUnsupported)
}

// TestB34_TheLongestTimes that are taken do not overflow: with them, a lock works as with any others.
func TestB34_TheLongestTimes(t *testing.T) {
	bubble(t, dibs.Config{RequestTimeout: 24 * time.Hour, HoldAlarm: math.MaxInt64, MaxHold: math.MaxInt64, TTL: 24 * time.Hour}, func(t *testing.T, h *house) {
		want(t, h.Ping(t.Context()), nil)
		lock, ctx, err := h.Acquire(t.Context(), "k", dibs.MaxWait(math.MaxInt64), dibs.MinHold(24*time.Hour))
		want(t, err, nil)
		time.Sleep(72 * time.Hour)
		want(t, ctx.Err(), nil)
		want(t, lock.Verify(t.Context()), nil)
		h.store.Fail(errors.New("away"))
		err = lock.Release()
		want(t, err, dibs.ErrUnavailable)
		if !strings.Contains(err.Error(), "is free in 48h0m0s at the latest") {
			t.Error(err)
		}
		h.store.Fail(nil)
		time.Sleep(time.Second)
		if left := h.left(t, "k"); left != 0 {
			t.Errorf("not released in the background, %s left", left)
		}
		if got := h.heard(); got != "waited, acquired, released" {
			t.Error(got)
		}
	})
}

func TestSessionStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := hooked.New(newStore())
		d.SetLimits(dibsdriver.Limits{Store: "session", SessionTTL: 20 * time.Second})
		l, err := dibs.New(d, nil)
		want(t, err, nil)
		_, _, err = l.Acquire(t.Context(), "k", dibs.TTL(time.Minute))
		want(t, err, dibs.ErrUnsupported)
		_, _, err = l.Acquire(t.Context(), "k", dibs.MinHold(time.Minute))
		want(t, err, dibs.ErrUnsupported)
		lock, _, err := l.Acquire(t.Context(), "k")
		want(t, err, nil)
		if lock.Remaining() != 19*time.Second {
			t.Error(lock.Remaining())
		}
		want(t, lock.Release(), nil)
		want(t, l.Shutdown(t.Context()), nil)
	})
}

func TestKeys(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		for _, key := range []string{"", "\xff", "a\xc3", strings.Repeat("k", 256), strings.Repeat("k", 4096)} {
			_, _, err := h.TryAcquire(t.Context(), key)
			want(t, err, dibs.ErrInvalidKey)
			if len(err.Error()) > 300 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		}
		different := []string{"k", "K", "k ", "k\x00", "é", "e", "e\u0301", "😀", "😁", "%", "_", "'", "\"", "\\", "k/1", strings.Repeat("k", 255), strings.Repeat("k", 254) + "j"}
		var locks []*dibs.Lock
		for _, key := range different {
			lock, _, err := h.TryAcquire(t.Context(), key)
			if err != nil {
				t.Fatalf("%q: %v", key, err)
			}
			locks = append(locks, lock)
		}
		for i, lock := range locks {
			if lock.Key() != different[i] {
				t.Errorf("%q", lock.Key())
			}
			want(t, lock.Release(), nil)
		}
	})
	bubble(t, dibs.Config{Prefix: strings.Repeat("p", 250)}, func(t *testing.T, h *house) {
		_, _, err := h.TryAcquire(t.Context(), "123456")
		want(t, err, dibs.ErrInvalidKey)
		_, _, err = h.TryAcquire(t.Context(), "")
		want(t, err, dibs.ErrInvalidKey)
		lock, _, err := h.TryAcquire(t.Context(), "12345")
		want(t, err, nil)
		want(t, lock.Release(), nil)
	})
}

func TestB17_Waits(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		other := open(t, h.store, dibs.Config{})
		theirs, _ := other.take(t)

		start := time.Now()
		_, _, err := h.Acquire(t.Context(), "k", dibs.MaxWait(2*time.Second))
		want(t, err, dibs.ErrBusy)
		b, ok := errors.AsType[*dibs.BusyError](err)
		if !ok || b.Key != "k" || b.Holder.Token != theirs.Token() || time.Since(start) != 2*time.Second {
			t.Errorf("%+v after %s", b, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		_, _, err = h.Acquire(ctx, "k")
		want(t, err, context.DeadlineExceeded, dibs.ErrBusy)
		if b, ok := errors.AsType[*dibs.BusyError](err); !ok || b.Key != "k" {
			t.Error("the last that was known is not in the error")
		}
		if took := time.Since(start); took != 2250*time.Millisecond {
			t.Errorf("took %s", took)
		}
		_, _, err = h.TryAcquire(t.Context(), "k", dibs.MaxWait(time.Hour)) // one attempt all the same
		want(t, err, dibs.ErrBusy)
		if got := h.heard(); got != "waited, waited" {
			t.Error(got)
		}

		canceled, cancel2 := context.WithCancelCause(t.Context())
		cancel2(errWork)
		n, _, _ := h.driver.Counts()
		_, _, err = h.Acquire(canceled, "free")
		want(t, err, context.Canceled, errWork)
		if m, _, _ := h.driver.Counts(); m != n {
			t.Error("the store was asked")
		}
		want(t, theirs.Release(), nil)
		want(t, other.Shutdown(t.Context()), nil)
	})
}

func TestTheStoreIsNamedInErrors(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		h.store.Fail(errors.New("no route to host"))
		_, _, err := h.Acquire(t.Context(), "orders")
		for _, text := range []string{"orders", "memory", "no route to host"} {
			if !strings.Contains(fmt.Sprint(err), text) {
				t.Errorf("%q is not in %q", text, err)
			}
		}
		h.store.Fail(nil)
	})
}

func TestLostEvents(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		lock, ctx := h.take(t)
		h.driver.OnRenew(func(context.Context, []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			return nil, fmt.Errorf("%w: %w: no right to UPDATE", dibsdriver.ErrUnavailable, dibsdriver.ErrRefused)
		})
		<-ctx.Done()
		want(t, lock.Release(), dibs.ErrLost)
		if got := h.heard(); !strings.HasPrefix(got, "waited, acquired, refused") || !strings.HasSuffix(got, "lost, released") {
			t.Error(got)
		}
		if h.logged("refuses to renew") == 0 || h.logged("lost under its work") != 1 {
			t.Error("not in the log")
		}
		h.driver.OnRenew(nil)
	})
}

func TestAPanicInAnEventIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, newStore(), dibs.Config{})
		l, err := dibs.New(newStore(), &dibs.Config{Logger: h.logger(), Events: dibs.Events{Acquired: func(dibs.Event) { panic("hook") }}})
		want(t, err, nil)
		want(t, l.Do(t.Context(), "k", func(context.Context) error { return nil }), nil)
		if h.logged("panicked") != 1 {
			t.Error("not in the log")
		}
		want(t, l.Shutdown(t.Context()), nil)
		want(t, h.Shutdown(t.Context()), nil)
	})
}

func TestABlockedEventDelaysNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		l, err := dibs.New(newStore(), &dibs.Config{TTL: time.Second, Events: dibs.Events{Renewed: func(dibs.Event) { <-over }}})
		want(t, err, nil)
		lock, _, err := l.Acquire(t.Context(), "k")
		want(t, err, nil)
		time.Sleep(time.Minute)
		want(t, lock.Err(), nil)
		want(t, lock.Release(), nil)
		close(over)
		want(t, l.Shutdown(t.Context()), nil)
	})
}

func TestShard(t *testing.T) {
	seen := map[string]int{}
	for i := range 1600 {
		seen[dibs.Shard("stock", 16, fmt.Sprint("sku", i))]++
	}
	if len(seen) != 16 {
		t.Error(seen)
	}
	for name, n := range seen {
		if !strings.HasPrefix(name, "stock/") || n < 60 || n > 140 {
			t.Errorf("%s: %d of 1600", name, n)
		}
	}
	if got := dibs.Shard("a", 1, "x"); got != "a/0" {
		t.Error(got)
	}
	if got := dibs.Shard("stock", 1000, "x"); got != "stock/"+fmt.Sprint(fnv1a("x")%1000) {
		t.Error(got)
	}
	defer func() {
		if recover() == nil {
			t.Error("n = 0 did not panic")
		}
	}()
	dibs.Shard("a", 0, "x")
}

// fnv1a is written out here, because the names of shards must never change.
func fnv1a(s string) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range []byte(s) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}
