package settle

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/dibsmem"
	"github.com/dibs-go/dibs/internal/call"
	"github.com/dibs-go/dibs/internal/hooked"
)

const ttl = 30 * time.Second

type house struct {
	*Settler
	store  *dibsmem.Store
	driver *hooked.Driver
}

func newHouse() *house {
	h := &house{store: dibsmem.New()}
	h.driver = hooked.New(h.store)
	h.Settler = &Settler{Driver: h.driver, Group: call.NewGroup(), Timeout: 5 * time.Second}
	return h
}

func (h *house) acquire(ctx context.Context) (dibsdriver.AcquireResult, error) {
	return h.store.Acquire(ctx, dibsdriver.AcquireParams{Key: "k", Owner: "me", TTL: ttl})
}

// call starts an acquire that does what f does.
func (h *house) call(f func(ctx context.Context) (dibsdriver.AcquireResult, error)) *call.Call[dibsdriver.AcquireResult] {
	return call.Start(h.Group, h.Timeout, f)
}

func (h *house) held(t *testing.T) bool {
	t.Helper()
	all, err := h.store.List(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	return len(all) > 0
}

// idleAfter requires that the group's work ends after d, neither sooner nor later.
func (h *house) idleAfter(t *testing.T, d time.Duration) {
	t.Helper()
	start := time.Now()
	if err := h.Group.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < d || took > d+retryMax {
		t.Errorf("the background work ended after %s, want %s", took, d)
	}
}

func release() Release { return Release{Key: "k", Owner: "me", Life: ttl} }

func TestReleaseFrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.acquire(t.Context())
		if err := h.Release(release(), time.Now()); err != nil || h.held(t) {
			t.Errorf("%v, held %v", err, h.held(t))
		}
		if err := h.Release(release(), time.Now()); !errors.Is(err, dibsdriver.ErrLost) {
			t.Error(err)
		}
		h.idleAfter(t, 0)
	})
}

func TestReleaseKeepsForTheMinHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.acquire(t.Context())
		r := release()
		r.KeepUntil = time.Now().Add(10 * time.Second)
		if err := h.Release(r, time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Second - 1)
		if !h.held(t) {
			t.Error("free before its min hold")
		}
		time.Sleep(time.Nanosecond)
		if h.held(t) {
			t.Error("held after its min hold")
		}
		h.acquire(t.Context())
		if err := h.Release(r, time.Now()); err != nil || h.held(t) { // it is over
			t.Errorf("%v, held %v", err, h.held(t))
		}
	})
}

func TestReleaseGoesOnInTheBackground(t *testing.T) {
	for name, fail := range map[string]func(context.Context) error{
		"error": func(context.Context) error { return errors.New("connection refused") },
		"hangs": func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Hour); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse()
				h.acquire(t.Context())
				var down atomic.Bool
				down.Store(true)
				h.driver.OnRelease(func(ctx context.Context, p dibsdriver.ReleaseParams) error {
					if down.Load() {
						return fail(ctx)
					}
					return h.store.Release(ctx, p)
				})
				start := time.Now()
				err := h.Release(release(), time.Now())
				if !errors.Is(err, dibsdriver.ErrUnavailable) {
					t.Error(err)
				}
				if took := time.Since(start); took > h.Timeout {
					t.Errorf("took %s", took)
				}
				time.Sleep(10 * time.Second)
				down.Store(false)
				time.Sleep(h.Timeout + retryMax)
				synctest.Wait()
				if h.held(t) {
					t.Error("still held")
				}
				h.Group.Wait(context.Background())
			})
		})
	}
}

func TestReleaseIsRetriedWithinTheLeaseOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.store.Fail(errors.New("down"))
		if err := h.Release(release(), time.Now()); !errors.Is(err, dibsdriver.ErrUnavailable) {
			t.Error(err)
		}
		h.idleAfter(t, ttl)
		_, _, n := h.driver.Counts()
		if n < int(ttl/retryMax) || n > 2*int(ttl/retryMax)+10 {
			t.Errorf("%d tries in %s", n, ttl)
		}
	})
}

func TestInBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.acquire(t.Context())
		h.InBackground(release())
		h.idleAfter(t, 0)
		if h.held(t) {
			t.Error("held")
		}
		h.InBackground(release()) // nothing there: done
		h.idleAfter(t, 0)
	})
}

func TestCancelEndsTheRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.store.Fail(errors.New("down"))
		h.InBackground(release())
		h.TakeBack("k", "me", ttl, h.call(func(context.Context) (dibsdriver.AcquireResult, error) {
			return dibsdriver.AcquireResult{}, errors.New("reset")
		}))
		time.Sleep(time.Second)
		h.Group.Cancel()
		h.idleAfter(t, 0)
	})
}

func TestTakeBack(t *testing.T) {
	later := 8 * time.Second
	for _, c := range []struct {
		name    string
		acquire func(h *house, ctx context.Context) (dibsdriver.AcquireResult, error)
		ends    time.Duration // when the take-back is over
		tries   int           // how many releases it took at the least; 0: none
	}{
		{"busy after all", func(h *house, ctx context.Context) (dibsdriver.AcquireResult, error) {
			return dibsdriver.AcquireResult{}, nil
		}, 0, 0},
		{"known not to be applied", func(h *house, ctx context.Context) (dibsdriver.AcquireResult, error) {
			return dibsdriver.AcquireResult{}, dibsdriver.NotApplied(errors.New("refused"))
		}, 0, 0},
		{"applied, reply lost", func(h *house, ctx context.Context) (dibsdriver.AcquireResult, error) {
			h.acquire(ctx)
			return dibsdriver.AcquireResult{}, errors.New("reset")
		}, 0, 1},
		{"not applied, reply lost: it could still come", func(h *house, ctx context.Context) (dibsdriver.AcquireResult, error) {
			return dibsdriver.AcquireResult{}, errors.New("reset")
		}, 35 * time.Second, 100},
		{"settled, not applied", func(h *house, ctx context.Context) (dibsdriver.AcquireResult, error) {
			return dibsdriver.AcquireResult{}, dibsdriver.Settled(errors.New("rolled back"))
		}, 0, 1},
		{"settled, applied", func(h *house, ctx context.Context) (dibsdriver.AcquireResult, error) {
			h.acquire(ctx)
			return dibsdriver.AcquireResult{}, dibsdriver.Settled(errors.New("interrupted"))
		}, 0, 1},
		{"applied late, answered", func(h *house, ctx context.Context) (dibsdriver.AcquireResult, error) {
			time.Sleep(later)
			return h.acquire(context.Background())
		}, later, 2},
		{"applied after an error", func(h *house, ctx context.Context) (dibsdriver.AcquireResult, error) {
			h.Group.Go(func(context.Context) {
				time.Sleep(later)
				h.acquire(context.Background())
			})
			return dibsdriver.AcquireResult{}, errors.New("reset")
		}, later, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse()
				h.TakeBack("k", "me", ttl, h.call(func(ctx context.Context) (dibsdriver.AcquireResult, error) {
					return c.acquire(h, ctx)
				}))
				h.idleAfter(t, c.ends)
				if h.held(t) {
					t.Error("left behind")
				}
				if _, _, n := h.driver.Counts(); n < c.tries || c.tries == 0 && n > 1 {
					t.Errorf("%d releases, want %d", n, c.tries)
				}
			})
		})
	}
}

func TestTakeBackTouchesNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.store.Acquire(t.Context(), dibsdriver.AcquireParams{Key: "k", Owner: "other", TTL: time.Hour})
		h.TakeBack("k", "me", ttl, h.call(func(context.Context) (dibsdriver.AcquireResult, error) {
			return dibsdriver.AcquireResult{}, errors.New("reset")
		}))
		h.Group.Wait(context.Background())
		if !h.held(t) {
			t.Error("the other's lease is gone")
		}
	})
}

func TestTakeBackOnASessionStoreEndsOnlyWhenConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.Session = true
		h.store.Fail(errors.New("down"))
		h.TakeBack("k", "me", ttl, h.call(func(context.Context) (dibsdriver.AcquireResult, error) {
			return dibsdriver.AcquireResult{}, errors.New("reset")
		}))
		h.InBackground(release())
		time.Sleep(time.Hour)
		h.store.Fail(nil)
		h.store.Acquire(t.Context(), dibsdriver.AcquireParams{Key: "k", Owner: "me", TTL: 24 * time.Hour})
		h.idleAfter(t, 0)
		if h.held(t) {
			t.Error("left behind")
		}
		// Nothing there, and confirmed as soon as the request cannot come any more.
		h.TakeBack("k", "me", ttl, h.call(func(context.Context) (dibsdriver.AcquireResult, error) {
			return dibsdriver.AcquireResult{}, errors.New("reset")
		}))
		h.idleAfter(t, ttl+h.Timeout)
	})
}

// TestReleaseHasTheRestOfItsTime: what its caller has used up already counts.
func TestReleaseHasTheRestOfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.acquire(t.Context())
		h.driver.OnRelease(func(ctx context.Context, _ dibsdriver.ReleaseParams) error {
			<-ctx.Done()
			return ctx.Err()
		})
		for _, used := range []time.Duration{0, time.Second, h.Timeout, 2 * h.Timeout} {
			start := time.Now()
			if err := h.Release(release(), start.Add(-used)); !errors.Is(err, dibsdriver.ErrUnavailable) {
				t.Error(err)
			}
			if took, want := time.Since(start), max(0, h.Timeout-used); took != want {
				t.Errorf("%s were used up, and it took %s, want %s", used, took, want)
			}
		}
		h.driver.OnRelease(nil)
		if err := h.Group.Wait(context.Background()); err != nil || h.held(t) {
			t.Errorf("%v, held %v", err, h.held(t))
		}
	})
}
