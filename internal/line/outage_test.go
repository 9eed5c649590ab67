package line

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/dibsmem"
)

func TestAFirstContactThatFailsIsUnavailableAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		h.store.Fail(errors.New("down"))
		start := time.Now()
		if _, err := h.Join(t.Context(), "k", terms, Forever); !errors.Is(err, dibsdriver.ErrUnavailable) || time.Since(start) != 0 {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		h.done(t)
	})
}

func TestAnOutageIsSharedAndWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		h.other(t, time.Hour)
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				g, err := h.Join(t.Context(), "k", terms, Forever)
				if err != nil {
					t.Error(err)
					return
				}
				h.release("k", g)
			})
		}
		time.Sleep(time.Second)
		h.driver.OnAcquire(func(ctx context.Context, _ dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
			<-ctx.Done()
			return dibsdriver.AcquireResult{}, ctx.Err()
		})
		time.Sleep(time.Second)
		n, _, _ := h.driver.Counts()
		start := time.Now()
		var late sync.WaitGroup
		for range 200 { // who comes during the outage shares its answer: they do not time out one after another
			late.Go(func() {
				if _, err := h.Join(t.Context(), "k", terms, Forever); !errors.Is(err, dibsdriver.ErrUnavailable) {
					t.Error(err)
				}
			})
		}
		late.Wait()
		if took := time.Since(start); took > 2*h.Timeout+outageMax {
			t.Errorf("200 callers learned of the outage within %s", took)
		}
		time.Sleep(time.Minute)
		if m, _, _ := h.driver.Counts(); m-n > 20 {
			t.Errorf("%d requests in a minute of outage", m-n)
		}
		h.driver.OnAcquire(nil)
		h.free(t)
		start = time.Now()
		wg.Wait()
		if took := time.Since(start); took > h.Timeout+outageMax {
			t.Errorf("they went on %s after its end", took)
		}
		h.done(t)
	})
}

func TestAWaitThatEndsInAnOutageIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		h.other(t, time.Hour)
		start := time.Now()
		time.AfterFunc(time.Second, func() { h.store.Fail(errors.New("down")) })
		_, err := h.Join(t.Context(), "k", terms, 3*time.Second)
		if !errors.Is(err, dibsdriver.ErrUnavailable) || time.Since(start) != 3*time.Second {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		h.store.Fail(nil)
		_, err = h.Join(t.Context(), "k", terms, 3*time.Second)
		busy(t, err)
		h.done(t)
	})
}

func TestWhatWaitingDoesNotMendEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		h.other(t, time.Hour)
		time.AfterFunc(time.Second, func() {
			h.driver.OnAcquire(func(context.Context, dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
				return dibsdriver.AcquireResult{}, dibsdriver.NotApplied(fmt.Errorf("%w: no such table", dibsdriver.ErrRefused))
			})
		})
		start := time.Now()
		_, err := h.Join(t.Context(), "k", terms, Forever)
		if !errors.Is(err, dibsdriver.ErrRefused) || time.Since(start) > 2*time.Second {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		h.done(t)
	})
}

func TestBehindAHolderOfThisProcessAnOutageIsWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		g, _ := h.Join(t.Context(), "k", terms, 0)
		got := make(chan error)
		go func() {
			g, err := h.Join(t.Context(), "k", terms, Forever)
			h.release("k", g)
			got <- err
		}()
		synctest.Wait()
		h.release("k", g)
		h.store.Fail(errors.New("down"))
		time.Sleep(time.Minute)
		h.store.Fail(nil)
		if err := <-got; err != nil {
			t.Error(err)
		}
		h.done(t)
	})
}

func TestAnAttemptBehindALineTellsWhatTheLineKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		h.Limits.PollMin, h.Limits.PollMax = 10*time.Second, 10*time.Second
		h.other(t, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		go h.Join(ctx, "k", terms, Forever)
		time.Sleep(5 * time.Second) // the store's answer is as old
		_, err := h.Join(t.Context(), "k", terms, 0)
		if b := busy(t, err); b.Left != 55*time.Second {
			t.Errorf("left %s", b.Left)
		}
		h.store.Fail(errors.New("down"))
		time.Sleep(20 * time.Second) // asked again meanwhile, in vain
		if _, err = h.Join(t.Context(), "k", terms, 0); !errors.Is(err, dibsdriver.ErrUnavailable) {
			t.Error(err)
		}
		cancel()
		h.done(t)
	})
}

// TestATryBehindASilentStore: at first others stand before it in line, and that is busy; after a second of silence nobody can say what the key is.
func TestATryBehindASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := dibsmem.New()
		h := newHouse(store)
		h.driver.OnAcquire(func(ctx context.Context, _ dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
			<-ctx.Done()
			return dibsdriver.AcquireResult{}, ctx.Err()
		})
		ended := make(chan error, 1)
		go func() {
			_, err := h.Join(context.Background(), "k", terms, 0)
			ended <- err
		}()
		synctest.Wait()
		start := time.Now()
		for _, at := range []time.Duration{0, silence, silence + time.Millisecond, h.Timeout - time.Millisecond} {
			time.Sleep(time.Until(start.Add(at)))
			_, err := h.Join(context.Background(), "k", terms, 0)
			if at <= silence {
				busy(t, err)
			} else if !errors.Is(err, dibsdriver.ErrUnavailable) {
				t.Errorf("after %s of silence: %v", at, err)
			}
		}
		if n, _, _ := h.driver.Counts(); n != 1 {
			t.Errorf("%d questions: a try does not jump the line", n)
		}
		if err := <-ended; !errors.Is(err, dibsdriver.ErrUnavailable) {
			t.Errorf("the first: %v", err)
		}
		h.driver.OnAcquire(nil)
		h.done(t)
	})
}
