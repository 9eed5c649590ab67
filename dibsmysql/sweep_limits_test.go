package dibsmysql

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// TestB34_SweepForEver: a retention that means "never" removes nothing, whatever it is added to.
func TestB34_SweepForEver(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		take(t, d, "held", time.Hour)
		freed(t, d, "free")
		b.age(t, "free", 24*time.Hour)
		if _, err := d.Sweep(within(t), math.MaxInt64); !errors.Is(err, dibsdriver.ErrRefused) {
			t.Errorf("kept for ever: %v", err)
		}
		if _, err := d.Sweep(within(t), maxSweepTime); err != nil {
			t.Errorf("kept for ten years: %v", err)
		}
		if want := "free held"; b.keys(t) != want {
			t.Errorf("left are %s, and not %s", b.keys(t), want)
		}
		for _, cfg := range []SweepConfig{{Retention: math.MaxInt64}, {Every: math.MaxInt64}} {
			if _, err := New(b.pool(t, ""), &Config{Sweep: &cfg}).Limits(); !errors.Is(err, dibsdriver.ErrRefused) {
				t.Errorf("%+v: %v", cfg, err)
			}
		}
	})
}

// TestMicrosOfLongTimes: they do not become short ones.
func TestMicrosOfLongTimes(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Microsecond: 1, time.Microsecond + 1: 2, -1: 0, math.MaxInt64: math.MaxInt64/1000 + 1,
	} {
		if got := micros(d); got != want {
			t.Errorf("%s: %d, want %d", d, got, want)
		}
	}
}

// TestB17_SweepOfASilentServer ends although its context has no end.
func TestB17_SweepOfASilentServer(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		w := newWire(t, b.Addr)
		w.set(func(w *wire) { w.deaf = true })
		d := b.through(t, w, "")
		done := make(chan error, 1)
		go func() {
			_, err := d.Sweep(t.Context(), 0)
			done <- err
		}()
		select {
		case err := <-done:
			if !errors.Is(err, dibs.ErrUnavailable) {
				t.Error(err)
			}
		case <-time.After(3 * sweepLimit):
			t.Error("it goes on")
			w.cutAll()
			<-done
		}
	})
}
