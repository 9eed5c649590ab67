package line

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/dibsmem"
)

// A request whose answer comes late belongs to the line.

// slow makes every acquire take so long to be answered.
func (h *house) slow(d time.Duration) {
	h.driver.OnAcquire(func(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
		r, err := h.store.Acquire(ctx, p)
		time.Sleep(d)
		return r, err
	})
}

func TestALateSuccessGoesToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		h.slow(3 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := h.Join(ctx, "k", terms, Forever)
			if !errors.Is(err, dibsdriver.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("an unknown outcome is not %v", err)
			}
			if _, ok := errors.AsType[*BusyError](err); ok {
				t.Error("told busy, but the outcome is unknown")
			}
		})
		synctest.Wait()
		g, err := h.Join(t.Context(), "k", terms, Forever)
		if err != nil {
			t.Fatal(err)
		}
		if n, _, _ := h.driver.Counts(); n != 1 {
			t.Errorf("%d requests", n)
		}
		wg.Wait()
		h.release("k", g)
		h.done(t)
	})
}

func TestALateSuccessThatNobodyWantsIsGivenBack(t *testing.T) {
	for name, next := range map[string]func(h *house, t *testing.T){
		"nobody waits": func(h *house, t *testing.T) {},
		"the next has other terms": func(h *house, t *testing.T) {
			g, err := h.Join(t.Context(), "k", Terms{TTL: time.Minute, Margin: time.Second}, Forever)
			if err != nil {
				t.Error(err)
			}
			if n, _, _ := h.driver.Counts(); n < 2 {
				t.Error("got a lease with another's terms")
			}
			h.release("k", g)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(dibsmem.New())
				h.slow(3 * time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				go h.Join(ctx, "k", terms, Forever)
				synctest.Wait()
				next(h, t)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if h.holders(t) != 0 {
					t.Error("left behind")
				}
				h.done(t)
			})
		})
	}
}

func TestNoAnswerIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		h.driver.OnAcquire(func(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
			time.Sleep(8 * time.Second) // arrives when the caller has gone
			h.store.Acquire(context.Background(), p)
			return dibsdriver.AcquireResult{}, errors.New("reset")
		})
		start := time.Now()
		_, err := h.Join(t.Context(), "k", terms, 0)
		if took := time.Since(start); !errors.Is(err, dibsdriver.ErrUnavailable) || took != 5*time.Second {
			t.Errorf("took %s: %v", took, err)
		}
		h.driver.OnAcquire(nil)
		time.Sleep(3*time.Second + 300*time.Millisecond)
		g, err := h.Join(t.Context(), "k", terms, 0)
		if err != nil {
			t.Fatal(err)
		}
		h.release("k", g)
		h.done(t)
	})
}

func TestAnErrorIsTakenBackUnlessItIsKnownToBeNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		h.driver.OnAcquire(func(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
			h.store.Acquire(ctx, p)
			return dibsdriver.AcquireResult{}, errors.New("reset")
		})
		if _, err := h.Join(t.Context(), "k", terms, 0); !errors.Is(err, dibsdriver.ErrUnavailable) {
			t.Error(err)
		}
		synctest.Wait()
		if h.holders(t) != 0 {
			t.Error("left behind")
		}
		h.driver.OnAcquire(func(context.Context, dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
			return dibsdriver.AcquireResult{}, dibsdriver.NotApplied(errors.New("refused"))
		})
		_, _, n := h.driver.Counts()
		h.Join(t.Context(), "k", terms, 0)
		h.Group.Wait(t.Context())
		if _, _, m := h.driver.Counts(); m != n {
			t.Error("took back what was not applied")
		}
		h.done(t)
	})
}

func TestAnAnswerThatCannotBeTrustedAnyMoreIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		h.slow(900 * time.Millisecond)
		short := Terms{TTL: time.Second, Margin: 100 * time.Millisecond}
		start := time.Now()
		if _, err := h.Join(t.Context(), "k", short, 0); !errors.Is(err, dibsdriver.ErrUnavailable) {
			t.Error(err)
		}
		if took := time.Since(start); took != 900*time.Millisecond { // not the time-out
			t.Errorf("took %s", took)
		}
		time.Sleep(50 * time.Millisecond)
		if h.holders(t) != 0 {
			t.Error("left behind")
		}
		h.done(t)
	})
}

func TestGrantedInTheMomentOfLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		ctx, cancel := context.WithCancel(t.Context())
		h.driver.OnAcquire(func(c context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
			r, err := h.store.Acquire(c, p)
			h.mu.Lock() // the line cannot deliver until the caller has gone
			cancel()
			h.mu.Unlock()
			return r, err
		})
		if _, err := h.Join(ctx, "k", terms, Forever); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		if h.holders(t) != 0 {
			t.Error("left behind")
		}
		// and with somebody behind it
		for range 50 {
			ctx, cancel = context.WithCancel(t.Context())
			go h.Join(ctx, "k", terms, Forever)
			g, err := h.Join(t.Context(), "k", terms, Forever)
			if err != nil {
				t.Fatal(err)
			}
			h.release("k", g)
			cancel()
			synctest.Wait()
			if n := h.holders(t); n != 0 {
				t.Fatal("left behind")
			}
		}
		h.done(t)
	})
}

func TestAnAnswerThatNobodyWaitsForAnyMoreIsTakenBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		h.driver.OnAcquire(func(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
			h.store.Acquire(ctx, p)
			<-ctx.Done() // the reply is lost
			return dibsdriver.AcquireResult{}, ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		h.Join(ctx, "k", terms, Forever)
		time.Sleep(10 * time.Millisecond)
		if h.holders(t) != 0 {
			t.Error("still taken, though the only caller has gone")
		}
		h.done(t)
	})
}

func TestWhoStandsBehindABusyHeadIsToldBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		h.Limits.PollMin, h.Limits.PollMax = time.Second, time.Second
		h.other(t, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		go h.Join(ctx, "k", terms, Forever)
		synctest.Wait()
		_, err := h.Join(t.Context(), "k", terms, 10*time.Millisecond) // over before the store is asked again
		if b := busy(t, err); b.Holder.Holder != "another" {
			t.Errorf("%+v", b)
		}

		// A request that has hung for long says that the store is silent, whatever it said before.
		h.driver.OnAcquire(func(ctx context.Context, _ dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
			<-ctx.Done()
			return dibsdriver.AcquireResult{}, ctx.Err()
		})
		time.Sleep(4 * time.Second)
		_, err = h.Join(t.Context(), "k", terms, 10*time.Millisecond)
		if !errors.Is(err, dibsdriver.ErrUnavailable) {
			t.Error(err)
		}
		cancel()
		h.done(t)
	})
}
