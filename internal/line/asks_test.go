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

// When the store is asked, and what for.

// clerk notes when the store is asked, and may answer in its place.
type clerk struct {
	*dibsmem.Store
	mu     sync.Mutex
	asked  []time.Time
	left   []string // the places that were given up
	limits []time.Duration
	wait   func(ctx context.Context, p dibsdriver.WaitParams) error
	leave  func(n int) error // the n-th
}

func (c *clerk) Acquire(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
	c.mu.Lock()
	c.asked = append(c.asked, time.Now())
	c.mu.Unlock()
	return c.Store.Acquire(ctx, p)
}

func (c *clerk) Wait(ctx context.Context, p dibsdriver.WaitParams) error {
	if end, ok := ctx.Deadline(); ok {
		c.mu.Lock()
		c.limits = append(c.limits, time.Until(end))
		c.mu.Unlock()
	}
	if c.wait != nil {
		return c.wait(ctx, p)
	}
	return c.Store.Wait(ctx, p)
}

func (c *clerk) Leave(ctx context.Context, p dibsdriver.WaitParams) error {
	c.mu.Lock()
	c.left = append(c.left, p.Waiter)
	n := len(c.left)
	c.mu.Unlock()
	if c.leave != nil {
		if err := c.leave(n); err != nil {
			return err
		}
	}
	return c.Store.Leave(ctx, p)
}

func (c *clerk) house() *house {
	c.Store = dibsmem.New()
	return &house{Lines: linesOn(c), store: c.Store}
}

// pauses are those between the questions.
func (c *clerk) pauses() []time.Duration {
	var all []time.Duration
	for i := 1; i < len(c.asked); i++ {
		all = append(all, c.asked[i].Sub(c.asked[i-1]))
	}
	return all
}

// TestAWaitInTheStoreIsConfirmedEverySecond, a little before it is over, and no wait there outlives the grace of a place.
func TestAWaitInTheStoreIsConfirmedEverySecond(t *testing.T) {
	for name, wait := range map[string]func(ctx context.Context, p dibsdriver.WaitParams) error{
		"waits as long as it may": nil,
		"waits for a second": func(ctx context.Context, _ dibsdriver.WaitParams) error {
			select {
			case <-ctx.Done():
			case <-time.After(dibsdriver.QueueAsk):
			}
			return context.DeadlineExceeded
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &clerk{wait: wait}
				h := c.house()
				h.other(t, time.Hour)
				h.Join(t.Context(), "k", terms, 20*time.Second)
				synctest.Wait()
				pauses := c.pauses()
				if len(pauses) < 20 || pauses[0] < 500*time.Millisecond || pauses[0] > time.Second {
					t.Fatalf("pauses: %v", pauses)
				}
				for _, d := range pauses[1:] {
					if d < 900*time.Millisecond || d > 950*time.Millisecond {
						t.Errorf("a pause of %s", d)
					}
				}
				for _, d := range c.limits {
					if d != 4500*time.Millisecond {
						t.Errorf("a wait of up to %s", d)
					}
				}
				h.done(t)
			})
		})
	}
}

// TestAStoreThatCannotWaitIsPolled.
func TestAStoreThatCannotWaitIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{wait: func(context.Context, dibsdriver.WaitParams) error { return errors.New("no more connections") }}
		h := c.house()
		h.other(t, time.Hour)
		h.Join(t.Context(), "k", terms, 20*time.Second)
		synctest.Wait()
		if n := len(c.asked); n < 500 || n > 1100 { // every 20 to 40 ms
			t.Errorf("%d requests in 20 s", n)
		}
		h.done(t)
	})
}

// TestPollsGrowRare: each pause is up to a quarter of the wait so far, and no less than an eighth.
func TestPollsGrowRare(t *testing.T) {
	for name, holder := range map[string]dibsdriver.Record{
		"somebody has it":          {Token: 1, ExpiresIn: time.Hour},
		"nobody in particular has": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(dibsmem.New())
				h.Limits.PollMin, h.Limits.PollMax = 8*time.Millisecond, time.Hour
				start := time.Now()
				var at []time.Duration
				h.driver.OnAcquire(func(context.Context, dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
					at = append(at, time.Since(start))
					return dibsdriver.AcquireResult{Holder: holder}, nil
				})
				h.Join(t.Context(), "k", terms, time.Minute)
				synctest.Wait()
				for i := 1; i < len(at); i++ {
					least := max(at[i-1]/8, 8*time.Millisecond)
					if d := at[i] - at[i-1]; d < least || d > 2*least {
						t.Errorf("a pause of %s after %s", d, at[i-1])
					}
				}
				if len(at) < 20 {
					t.Errorf("asked at %v", at)
				}
				h.done(t)
			})
		})
	}
}

// TestAPlaceIsGivenUpOnce, and only by who may have one: the store gives it up itself when it grants the key.
func TestAPlaceIsGivenUpOnce(t *testing.T) {
	for name, c := range map[string]struct {
		wait time.Duration // of the waiter
		free time.Duration // when the other frees the key; 0: at once
		left int
	}{
		"an attempt":                   {0, time.Hour, 0},
		"an attempt that succeeds":     {0, 0, 0},
		"a wait that is not necessary": {Forever, 0, 0},
		"a wait that succeeds":         {Forever, 3 * time.Second, 0},
		"a wait that is over":          {3 * time.Second, time.Hour, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := new(clerk)
				h := k.house()
				if c.free > 0 {
					h.other(t, time.Hour)
					defer time.AfterFunc(c.free, func() { h.free(t) }).Stop()
				}
				if g, err := h.Join(t.Context(), "k", terms, c.wait); err == nil {
					h.release("k", g)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if len(k.left) != c.left {
					t.Errorf("gave up the places %q", k.left)
				}
				h.done(t)
			})
		})
	}
}

// TestAPlaceThatCouldNotBeGivenUpIsTriedAgain until it has lapsed by itself.
func TestAPlaceThatCouldNotBeGivenUpIsTriedAgain(t *testing.T) {
	for _, fails := range []int{3, 1000} {
		t.Run(fmt.Sprint(fails), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &clerk{leave: func(n int) error {
					if n > fails {
						return nil
					}
					return dibsdriver.ErrUnavailable
				}}
				h := c.house()
				h.other(t, time.Hour)
				h.Join(t.Context(), "k", terms, time.Second)
				start := time.Now()
				h.Group.Wait(t.Context())
				took := time.Since(start)
				if fails == 3 && len(c.left) != 4 || fails > 3 && (took < dibsdriver.QueueGrace || took > dibsdriver.QueueGrace+outageMax) {
					t.Errorf("%d tries in %s", len(c.left), took)
				}
				h.done(t)
			})
		})
	}
}

// TestATurnThatComesWithTheEndOfTheWaitIsGivenUp, or the next in the store's line would wait for it.
func TestATurnThatComesWithTheEndOfTheWaitIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{wait: func(ctx context.Context, _ dibsdriver.WaitParams) error {
			<-ctx.Done()
			return nil // in the same moment
		}}
		h := c.house()
		h.other(t, time.Hour)
		h.Join(t.Context(), "k", terms, 3*time.Second)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(c.left) != 2 || c.left[0] != c.left[1] {
			t.Errorf("gave up the places %q, want the line's and, for the turn, once more", c.left)
		}
		h.done(t)
	})
}

// TestBehindASingleAttempt a waiter has no place in the store's queue before it has asked for one.
func TestBehindASingleAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var places []string
		c := &clerk{wait: func(ctx context.Context, p dibsdriver.WaitParams) error {
			places = append(places, p.Waiter)
			<-ctx.Done()
			return ctx.Err()
		}}
		h := &house{Lines: linesOn(&slowClerk{c}), store: dibsmem.New()}
		c.Store = h.store
		h.other(t, time.Hour)
		go h.Join(t.Context(), "k", terms, 0)
		synctest.Wait()
		h.Join(t.Context(), "k", terms, 10*time.Second)
		synctest.Wait()
		for _, p := range places {
			if p == "" {
				t.Errorf("waited in the places %q", places)
			}
		}
		if len(places) == 0 {
			t.Error("never waited")
		}
		h.done(t)
	})
}

// slowClerk is 100 ms away.
type slowClerk struct{ *clerk }

func (s *slowClerk) Acquire(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
	time.Sleep(100 * time.Millisecond)
	return s.clerk.Acquire(ctx, p)
}

// TestTheTimeOutCountsFromTheQuestion, also for who inherits it.
func TestTheTimeOutCountsFromTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		start := time.Now()
		var at []time.Duration
		h.driver.OnAcquire(func(ctx context.Context, _ dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
			at = append(at, time.Since(start))
			<-ctx.Done()
			return dibsdriver.AcquireResult{}, ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go h.Join(ctx, "k", terms, Forever)
		synctest.Wait()
		h.Join(t.Context(), "k", terms, 8*time.Second)
		synctest.Wait()
		if len(at) != 2 || at[1] < h.Timeout+10*time.Millisecond || at[1] > h.Timeout+20*time.Millisecond {
			t.Errorf("asked at %v", at)
		}
		h.done(t)
	})
}

// TestAnAnswerAtTheVeryEndOfTheWindow is no use.
func TestAnAnswerAtTheVeryEndOfTheWindow(t *testing.T) {
	short := Terms{TTL: time.Second, Margin: 100 * time.Millisecond}
	for range 100 { // whether the answer is seen first or its limit is chance
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(dibsmem.New())
			h.slow(short.window())
			if _, err := h.Join(t.Context(), "k", short, 0); !errors.Is(err, dibsdriver.ErrUnavailable) {
				t.Error(err)
			}
			h.done(t)
		})
	}
}

func TestTheStoresLifeAndTokenAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		for _, c := range []struct{ says, want time.Duration }{{0, terms.TTL}, {time.Minute, time.Minute}, {1, 1}} {
			h.driver.OnAcquire(func(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
				r, err := h.store.Acquire(ctx, p)
				r.TTL = c.says
				return r, err
			})
			g, err := h.Join(t.Context(), "k", terms, 0)
			if err != nil || g.Life != c.want {
				t.Errorf("%s, and the store said %s: %v", g.Life, c.says, err)
			}
			h.release("k", g)
		}
		h.driver.OnAcquire(func(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
			r, err := h.store.Acquire(ctx, p)
			r.Token = dibsdriver.MaxToken
			return r, err
		})
		g, err := h.Join(t.Context(), "k", terms, 0)
		if err != nil || g.Token != dibsdriver.MaxToken {
			t.Errorf("the highest token: %+v, %v", g, err)
		}
		h.release("k", g)
		h.done(t)
	})
}
