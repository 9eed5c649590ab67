package outbox

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// delivered waits until nothing is left to deliver.
func delivered(t *testing.T, o *Outbox) {
	t.Helper()
	if err := o.group.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	if o.running || len(o.queue) != 0 {
		t.Error("left behind:", o.running, len(o.queue))
	}
}

func TestInOrderAndWithoutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := New()
		var got []int
		start := time.Now()
		for i := range 100 {
			o.Post(Frequent, func() {
				time.Sleep(time.Second)
				got = append(got, i)
			})
		}
		if time.Since(start) != 0 {
			t.Error("Post waited")
		}
		delivered(t, o)
		if len(got) != 100 || !slices.IsSorted(got) {
			t.Error(got)
		}
		o.Post(Frequent, func() { got = nil }) // again, after its goroutine has ended
		delivered(t, o)
		if got != nil {
			t.Error("not delivered")
		}
	})
}

// TestWhatABlockedReceiverCostsIsBounded, and what matters most is dropped last.
func TestWhatABlockedReceiverCostsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := New()
		over := make(chan struct{})
		o.Post(Frequent, func() { <-over })
		synctest.Wait()
		var got [Owed + 1]int
		for r := Frequent; r <= Owed; r++ {
			for range 250_000 {
				room := o.Room(r)
				if taken := o.Post(r, func() { got[r]++ }); taken != room {
					t.Fatalf("room for %d: %v, taken: %v", r, room, taken)
				}
			}
		}
		close(over)
		delivered(t, o)
		if want := [...]int{10_000, 90_000, 100_000, 250_000}; got != want {
			t.Errorf("delivered %d, want %d", got, want)
		}
		for r := Frequent; r <= Owed; r++ {
			if !o.Room(r) {
				t.Error("no room for", r, "when nothing waits any more")
			}
		}
	})
}

// TestAnEndedGoroutineIsReplaced, and a panic ends none.
func TestAnEndedGoroutineIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := New()
		n := 0
		for range 3 {
			o.Post(Usual, func() { runtime.Goexit() })
			o.Post(Usual, func() { panic("nobody has caught it") })
			o.Post(Usual, func() { n++ })
		}
		o.Post(Usual, func() { runtime.Goexit() })
		delivered(t, o)
		if n != 3 {
			t.Errorf("%d of 3 delivered", n)
		}
	})
}

func TestDrain(t *testing.T) {
	const most = patience
	for name, c := range map[string]struct {
		each  time.Duration // that a function takes
		limit time.Duration // of the context
		late  time.Duration // after the first was begun
		took  time.Duration
		n     int // of 5
	}{
		"what gets on":               {each: most - 1, took: 5 * (most - 1), n: 5},
		"what does not":              {each: most + 1, took: most},
		"what gets on too slowly":    {each: most / 2, limit: 2*most - 1, took: 2*most - 1, n: 3},
		"a context that is over":     {each: most / 2, limit: -1, took: 0},
		"what had long to get on":    {each: 10 * most, late: 10*most - 1, took: 1 + most, n: 1},
		"what is not there any more": {late: time.Hour, n: 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := New()
				var delivers atomic.Int32
				for range 5 {
					o.Post(Usual, func() { time.Sleep(c.each); delivers.Add(1) })
				}
				time.Sleep(c.late)
				synctest.Wait()
				ctx := t.Context()
				if c.limit != 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.limit)
					defer cancel()
				}
				start := time.Now()
				o.Drain(ctx)
				n := int(delivers.Load())
				if took := time.Since(start); took != c.took || n != c.n {
					t.Errorf("took %s, want %s; %d delivered, want %d", took, c.took, n, c.n)
				}
				if open := o.Post(Owed, func() {}); open != (n == 5) {
					t.Errorf("%d of 5 were delivered, and more is taken: %v", n, open)
				}
				delivered(t, o)
				if n := int(delivers.Load()); n != 5 {
					t.Errorf("%d of 5 were delivered in the end", n)
				}
			})
		})
	}
}

// TestDrainFromWithin does not wait for itself for long, and loses nothing.
func TestDrainFromWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := New()
		last := false
		for range 2 {
			o.Post(Usual, func() {
				start := time.Now()
				o.Drain(context.Background())
				if took := time.Since(start); took != patience {
					t.Errorf("it waited %s for itself", took)
				}
			})
		}
		o.Post(Usual, func() { last = true })
		delivered(t, o)
		if !last {
			t.Error("what came after it was dropped")
		}
	})
}
