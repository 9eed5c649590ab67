package line

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/dibsmem"
	"github.com/dibs-go/dibs/internal/settle"
)

// TestBehindAHolderOfThisProcessNobodyAsks.
func TestBehindAHolderOfThisProcessNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		g, _ := h.Join(t.Context(), "k", terms, 0)
		_, err := h.Join(t.Context(), "k", terms, time.Minute)
		busy(t, err)
		if n, _, _ := h.driver.Counts(); n != 1 {
			t.Errorf("%d requests", n)
		}
		h.release("k", g)
		h.done(t)
	})
}

// TestWhoKnowsThatTheStoreWorksWaitsAnOutageOut: behind a holder of this process, however long it is since the store was heard of, and just after an answer.
func TestWhoKnowsThatTheStoreWorksWaitsAnOutageOut(t *testing.T) {
	for name, first := range map[string]func(h *house, t *testing.T) (down func()){
		"behind a holder": func(h *house, t *testing.T) func() {
			g, _ := h.Join(t.Context(), "k", terms, 0)
			time.Sleep(time.Minute)
			return func() {
				h.Settler.Release(settle.Release{Key: "k", Owner: g.Owner, Life: g.Life}, time.Now())
				h.store.Fail(errors.New("down"))
				h.Ended("k", g.Owner)
			}
		},
		"just after an answer": func(h *house, t *testing.T) func() {
			h.Limits.PollMin, h.Limits.PollMax = time.Second, time.Second
			h.other(t, time.Hour)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			t.Cleanup(cancel)
			go h.Join(ctx, "k", terms, Forever)
			time.Sleep(100 * time.Millisecond)
			return func() { h.store.Fail(errors.New("down")) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(dibsmem.New())
				down := first(h, t)
				start := time.Now()
				go func() { time.Sleep(time.Millisecond); down() }()
				h.Join(t.Context(), "k", terms, 10*time.Second)
				if took := time.Since(start); took != 10*time.Second {
					t.Errorf("waited %s", took)
				}
				h.store.Fail(nil)
				h.Close(errors.New("test over"))
				h.Group.Wait(context.Background())
			})
		})
	}
}

// TestAnAttemptThatIsOverLeavesNothing: not even for a moment.
func TestAnAttemptThatIsOverLeavesNothing(t *testing.T) {
	h := newHouse(dibsmem.New())
	h.other(t, time.Hour)
	for i := range 500 {
		_, err := h.Join(t.Context(), "k", terms, 0)
		busy(t, err)
		h.mu.Lock()
		n := len(h.lines)
		h.mu.Unlock()
		if n != 0 {
			t.Fatalf("attempt %d left %d lines", i, n)
		}
	}
	h.done(t)
}

// TestAnOutageIsNotHammered: pauses double from 20 ms to a second, spread down to the half.
func TestAnOutageIsNotHammered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		g, _ := h.Join(t.Context(), "k", terms, 0)
		start := time.Now()
		var at []time.Duration
		h.driver.OnAcquire(func(context.Context, dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
			at = append(at, time.Since(start))
			return dibsdriver.AcquireResult{}, dibsdriver.NotApplied(errors.New("down"))
		})
		time.AfterFunc(time.Second, func() { h.release("k", g) })
		h.Join(t.Context(), "k", terms, 20*time.Second)
		synctest.Wait()
		if len(at) < 20 || at[0] != time.Second {
			t.Fatalf("asked at %v", at)
		}
		for i := 1; i < len(at); i++ {
			most := min(10*time.Millisecond<<i, time.Second)
			if d := at[i] - at[i-1]; d < most/2 || d > most {
				t.Errorf("pause %d is %s, want up to %s", i, d, most)
			}
		}
		h.done(t)
	})
}
