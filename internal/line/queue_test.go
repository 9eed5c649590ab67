package line

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/dibsmem"
)

// Lines on a store that wakes waiters and keeps a line between processes.

func process(store *dibsmem.Store) *house {
	return &house{Lines: linesOn(store), store: store}
}

func TestProcessesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := dibsmem.New()
		a, b := process(store), process(store)
		turns := map[*house]int{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		work := func(h *house) {
			for {
				g, err := h.Join(ctx, "k", terms, Forever)
				if err != nil {
					return
				}
				turns[h]++ // under the lock
				time.Sleep(10 * time.Millisecond)
				h.release("k", g)
			}
		}
		for range 50 {
			go work(a)
		}
		go work(b)
		<-ctx.Done()
		time.Sleep(time.Second)
		synctest.Wait()
		// b has one waiter and a has fifty: b's is not always in line again when its turn comes.
		if turns[a]+turns[b] < 5500 || turns[b] < turns[a]/4 {
			t.Errorf("turns: %d and %d", turns[a], turns[b])
		}
		a.done(t)
		b.done(t)
	})
}

func TestAWaiterIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := process(dibsmem.New())
		h.other(t, time.Hour)
		start := time.Now()
		time.AfterFunc(10*time.Second+123*time.Microsecond, func() { h.free(t) })
		g, err := h.Join(t.Context(), "k", terms, Forever)
		if took := time.Since(start); err != nil || took != 10*time.Second+123*time.Microsecond {
			t.Errorf("took %s: %v", took, err)
		}
		h.release("k", g)
		h.done(t)
	})
}

func TestAnIdleWaiterAsksRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		h.other(t, time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range 50 {
			go h.Join(ctx, "k", terms, Forever)
		}
		<-ctx.Done()
		// 20 ms at the longest, spread up to twice that
		if n, _, _ := h.driver.Counts(); n < 1500 || n > 3100 {
			t.Errorf("%d requests in a minute", n)
		}
		synctest.Wait()
		h.done(t)
	})
}

func TestExpiryIsNotSleptOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		h.driver.SetLimits(dibsdriver.Limits{PollMin: time.Millisecond, PollMax: time.Hour})
		h.Limits, _ = h.driver.Limits()
		h.other(t, 40*time.Second)
		start := time.Now()
		g, err := h.Join(t.Context(), "k", terms, Forever)
		if took := time.Since(start); err != nil || took > 40*time.Second+2*time.Millisecond {
			t.Errorf("took %s: %v", took, err)
		}
		h.release("k", g)
		h.done(t)
	})
}

func TestALineThatEmptiesLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := dibsmem.New()
		a, b := process(store), process(store)
		a.other(t, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		go a.Join(ctx, "k", terms, Forever)
		synctest.Wait()
		got := make(chan time.Time)
		go func() {
			g, err := b.Join(t.Context(), "k", terms, Forever)
			if err != nil {
				t.Error(err)
			}
			at := time.Now()
			b.release("k", g)
			got <- at
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		start := time.Now()
		a.free(t)
		if took := (<-got).Sub(start); took != 0 {
			t.Errorf("the next in line waited %s for one that had left", took)
		}
		a.done(t)
		b.done(t)
	})
}

func TestADeadWaiterDelaysByTheGraceAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := dibsmem.New()
		h := process(store)
		h.other(t, time.Hour)
		store.Acquire(t.Context(), dibsdriver.AcquireParams{Key: "k", Owner: "dead", TTL: time.Minute, Waiter: "dead"})
		got := make(chan time.Time)
		go func() {
			g, err := h.Join(t.Context(), "k", terms, Forever)
			if err != nil {
				t.Error(err)
			}
			at := time.Now()
			h.release("k", g)
			got <- at
		}()
		synctest.Wait()
		start := time.Now()
		h.free(t)
		if took := (<-got).Sub(start); took > dibsdriver.QueueGrace {
			t.Errorf("waited %s", took)
		}
		h.done(t)
	})
}

// liar wakes waiters all the time, and counts how often it is asked.
type liar struct {
	*dibsmem.Store
	asks atomic.Int64
}

func (l *liar) Acquire(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
	l.asks.Add(1)
	return l.Store.Acquire(ctx, p)
}

func (*liar) Wait(context.Context, dibsdriver.WaitParams) error { return nil }

func TestFalseAlarmsAreNotHammered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &liar{Store: dibsmem.New()}
		h := &house{Lines: linesOn(l), store: l.Store}
		h.other(t, time.Hour)
		h.Join(t.Context(), "k", terms, 10*time.Second)
		if n := l.asks.Load(); n > 1100 { // 20 ms at the longest, spread down to half of it
			t.Errorf("%d requests in 10 s", n)
		}
		h.done(t)
	})
}

func TestAPlaceThatALateRequestAskedForIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := dibsmem.New()
		slow := &slowStore{Store: store}
		h := &house{Lines: linesOn(slow), store: store}
		h.other(t, time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		h.Join(ctx, "k", terms, Forever) // leaves while its request is under way, which then finds the key busy
		h.Group.Wait(t.Context())
		r, err := store.Acquire(t.Context(), dibsdriver.AcquireParams{Key: "k", Owner: "probe", TTL: time.Minute})
		if err != nil || r.Contended {
			t.Errorf("a place is left in the queue: %+v, %v", r, err)
		}
		h.done(t)
	})
}

// slowStore is two seconds away.
type slowStore struct{ *dibsmem.Store }

func (s *slowStore) Acquire(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
	time.Sleep(2 * time.Second)
	return s.Store.Acquire(context.WithoutCancel(ctx), p)
}
