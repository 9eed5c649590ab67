package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/dibsmem"
	"github.com/dibs-go/dibs/internal/call"
	"github.com/dibs-go/dibs/internal/hooked"
)

// house is a keeper on a memory store, with what happened to its leases.
type house struct {
	*Keeper
	store  *dibsmem.Store
	driver *hooked.Driver
	wall   wall
}

// wall is how far the wall clock has run ahead, in ns, since when.
type wall struct {
	mu    sync.Mutex
	steps []step
}

type step struct {
	at    time.Time
	ahead time.Duration
}

// Store sets the clock.
func (w *wall) Store(ahead int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps = append(w.steps, step{time.Now(), time.Duration(ahead)})
}

// Add moves the clock.
func (w *wall) Add(d int64) {
	now := time.Now()
	w.Store(int64(w.read(now).Sub(now)) + d)
}

// read tells what the clock said at a moment.
func (w *wall) read(at time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range slices.Backward(w.steps) {
		if !s.at.After(at) {
			return at.Add(s.ahead)
		}
	}
	return at
}

func newHouse() *house {
	h := &house{store: dibsmem.New()}
	h.driver = hooked.New(h.store)
	h.Keeper = &Keeper{Driver: h.driver, Group: call.NewGroup(), Timeout: 5 * time.Second, Wall: h.wall.read}
	return h
}

// holder records what it is told, and when.
type holder struct {
	mu    sync.Mutex
	start time.Time
	told
}

type told struct {
	ended   error
	endedAt time.Duration
	renewed []time.Duration
	alarms  []time.Duration
}

// seen is a copy of what the holder was told so far.
func (h *holder) seen() told {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told
}

func (h *holder) LeaseEnded(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != nil {
		panic("told twice")
	}
	h.ended, h.endedAt = cause, time.Since(h.start)
}

func (h *holder) LeaseRenewed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.renewed = append(h.renewed, time.Since(h.start))
}

func (h *holder) HoldAlarm(held time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.alarms = append(h.alarms, held)
}

// terms are 9 s, so that thirds are whole.
func terms(key string) Terms {
	return Terms{Key: key, Owner: "owner-of-" + key, TTL: 9 * time.Second, Margin: 900 * time.Millisecond}
}

// take acquires a lease from the store and gives it to the keeper.
func (h *house) take(t *testing.T, terms Terms) (*Lease, *holder) {
	t.Helper()
	start := time.Now()
	res, err := h.store.Acquire(context.Background(), dibsdriver.AcquireParams{Key: terms.Key, Owner: terms.Owner, TTL: terms.TTL})
	if err != nil || !res.Acquired {
		t.Fatal(res, err)
	}
	ho := &holder{start: start}
	l, ok := h.Add(terms, ho, start, terms.TTL)
	if !ok {
		t.Fatal("the keeper did not take the lease")
	}
	return l, ho
}

// stored is what is left of the lease in the store.
func (h *house) stored(t *testing.T, key string) time.Duration {
	t.Helper()
	for _, r := range h.list(t) {
		if r.Key == key {
			return r.ExpiresIn
		}
	}
	return 0
}

func (h *house) list(t *testing.T) []dibsdriver.Record {
	t.Helper()
	all, err := h.store.List(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (h *house) done(t *testing.T) {
	t.Helper()
	h.StopAll(errors.New("test over"))
	if err := h.Group.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(h.queue) != 0 || h.running || h.calls != 0 {
		t.Fatalf("left behind: %d leases, running %v, %d calls", len(h.queue), h.running, h.calls)
	}
}

func sleepTo(start time.Time, d time.Duration) { time.Sleep(time.Until(start.Add(d))); synctest.Wait() }

func TestRenewsEveryThirdOfTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		l, ho := h.take(t, terms("k"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(ho.seen().renewed) != 19 && len(ho.seen().renewed) != 20 {
			t.Errorf("%d renewals in a minute", len(ho.seen().renewed))
		}
		if ho.seen().renewed[0] != 3*time.Second || ho.seen().renewed[1] != 6*time.Second {
			t.Errorf("renewed at %v", ho.seen().renewed[:2])
		}
		if err := l.Err(); err != nil {
			t.Error(err)
		}
		if r := l.Remaining(); r > 8100*time.Millisecond || r < 5100*time.Millisecond {
			t.Errorf("remaining %s", r)
		}
		h.done(t)
		if l.Err() == nil || l.Remaining() != 0 {
			t.Error("an ended lease is trusted")
		}
	})
}

func TestTrustEndsByItself(t *testing.T) {
	never := make(chan struct{})
	for name, renew := range map[string]func(context.Context, []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error){
		"errors": func(context.Context, []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			return nil, dibsdriver.ErrUnavailable
		},
		"hangs until cancelled": func(ctx context.Context, _ []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"hangs whatever": func(context.Context, []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			<-never
			return nil, dibsdriver.ErrUnavailable
		},
		"unknown": func(_ context.Context, l []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			return make([]dibsdriver.RenewAnswer, len(l)), nil
		},
		"too few answers": func(context.Context, []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) { return nil, nil },
		"panics":          func(context.Context, []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) { panic("driver bug") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				never = make(chan struct{})
				h := newHouse()
				start := time.Now()
				l, ho := h.take(t, terms("k"))
				sleepTo(start, 4*time.Second) // one good renewal, at 3 s
				h.driver.OnRenew(renew)
				sleepTo(start, 11100*time.Millisecond-time.Nanosecond)
				if ho.seen().ended != nil {
					t.Fatalf("ended early, at %s: %v", ho.seen().endedAt, ho.seen().ended)
				}
				if err := l.Err(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Nanosecond)
				if err := l.Err(); !errors.Is(err, dibsdriver.ErrLost) { // whether its timer has run or not
					t.Errorf("Err: %v", err)
				}
				synctest.Wait()
				if !errors.Is(ho.seen().ended, dibsdriver.ErrLost) || ho.seen().endedAt != 11100*time.Millisecond {
					t.Errorf("ended at %s: %v", ho.seen().endedAt, ho.seen().ended)
				}
				if h.stored(t, "k") <= 0 {
					t.Error("the store's lease ended before the trust in it")
				}
				if !l.Lapsed() {
					t.Error("not lapsed")
				}
				close(never)
				h.done(t)
			})
		})
	}
}

func TestOneFailedRenewalLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		_, ho := h.take(t, terms("k"))
		var failures atomic.Int32
		h.driver.OnRenew(func(ctx context.Context, l []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			if failures.Add(1) <= 5 {
				return nil, dibsdriver.ErrUnavailable
			}
			return h.store.Renew(ctx, l)
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if ho.seen().ended != nil || failures.Load() < 5 {
			t.Errorf("after %d failures at %s: %v", failures.Load(), ho.seen().endedAt, ho.seen().ended)
		}
		// retried within a tenth of the TTL each: all five and the good one before the second third is over
		if ho.seen().renewed[0] > 3*time.Second+5*900*time.Millisecond {
			t.Errorf("first renewal at %s", ho.seen().renewed[0])
		}
		h.done(t)
	})
}

func TestAHangingRequestIsAskedAnewBesideIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		_, ho := h.take(t, terms("k"))
		var asked atomic.Int32
		h.driver.OnRenew(func(ctx context.Context, l []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			if asked.Add(1) == 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return h.store.Renew(ctx, l)
		})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if ho.seen().ended != nil {
			t.Fatal(ho.seen().ended)
		}
		if want := 3*time.Second + 2250*time.Millisecond; ho.seen().renewed[0] != want {
			t.Errorf("first renewal at %s, want %s", ho.seen().renewed[0], want)
		}
		h.done(t)
	})
}

func TestALateAnswerCountsFromItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		start := time.Now()
		l, ho := h.take(t, terms("k"))
		var asked atomic.Int32
		h.driver.OnRenew(func(ctx context.Context, leases []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			if asked.Add(1) > 1 {
				return nil, dibsdriver.ErrUnavailable
			}
			a, err := h.store.Renew(ctx, leases)
			time.Sleep(4 * time.Second)
			return a, err
		})
		sleepTo(start, 7*time.Second) // asked at 3 s, answered at 7 s
		if want := 3*time.Second + 8100*time.Millisecond - 7*time.Second; l.Remaining() != want {
			t.Errorf("remaining %s, want %s", l.Remaining(), want)
		}
		sleepTo(start, 12*time.Second)
		if ho.seen().endedAt != 11100*time.Millisecond {
			t.Errorf("ended at %s", ho.seen().endedAt)
		}
		h.done(t)
	})
}

func TestAnAnswerAfterTheWindowChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.Timeout = time.Minute
		start := time.Now()
		l, ho := h.take(t, terms("k"))
		h.driver.OnRenew(func(ctx context.Context, leases []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			a, err := h.store.Renew(ctx, leases)
			time.Sleep(8 * time.Second)
			return a, err
		})
		sleepTo(start, 30*time.Second)
		if ho.seen().endedAt != 8100*time.Millisecond || l.Err() == nil || len(ho.seen().renewed) != 0 {
			t.Errorf("ended at %s, renewed at %v, now %v", ho.seen().endedAt, ho.seen().renewed, l.Err())
		}
		h.done(t)
	})
}

func TestLostIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		start := time.Now()
		_, ho := h.take(t, terms("k"))
		_, other := h.take(t, terms("other"))
		sleepTo(start, time.Second)
		h.store.Expire("k")
		sleepTo(start, 10*time.Second)
		if !errors.Is(ho.seen().ended, dibsdriver.ErrLost) || ho.seen().endedAt != 3*time.Second {
			t.Errorf("ended at %s: %v", ho.seen().endedAt, ho.seen().ended)
		}
		if other.seen().ended != nil {
			t.Error("the other lease of the batch ended too")
		}
		h.done(t)
	})
}

func TestRefusedIsReportedAndRunsTheClockDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		var reported atomic.Int32
		h.Refused = func(key string, err error) { reported.Add(1) }
		start := time.Now()
		_, ho := h.take(t, terms("k"))
		h.driver.OnRenew(func(context.Context, []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			return nil, fmt.Errorf("%w: no such table", dibsdriver.ErrRefused)
		})
		sleepTo(start, 3*time.Second)
		if reported.Load() != 1 {
			t.Errorf("reported %d times", reported.Load())
		}
		sleepTo(start, 9*time.Second)
		if ho.seen().endedAt != 8100*time.Millisecond {
			t.Errorf("ended at %s: %v", ho.seen().endedAt, ho.seen().ended)
		}
		h.done(t)
	})
}
