package keeper

import (
	"context"
	"errors"
	"fmt"
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
	wall   atomic.Int64 // how far the wall clock has run ahead, in ns
}

func newHouse() *house {
	h := &house{store: dibsmem.New()}
	h.driver = hooked.New(h.store)
	h.Keeper = &Keeper{
		Driver: h.driver, Group: call.NewGroup(), Timeout: 5 * time.Second,
		Wall: func() time.Time { return time.Now().Add(time.Duration(h.wall.Load())) },
	}
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

func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		start := time.Now()
		for i := range 1000 {
			h.take(t, terms(fmt.Sprint("k", i)))
			if i%100 == 99 {
				time.Sleep(50 * time.Millisecond) // taken one after another, over half a second
			}
		}
		sleepTo(start, 30*time.Second+time.Second)
		_, n, _ := h.driver.Counts()
		if n > 2*10 {
			t.Errorf("%d requests for 1,000 leases in 10 intervals", n)
		}
		if len(h.list(t)) != 1000 {
			t.Errorf("%d leases are left", len(h.list(t)))
		}
		h.mu.Lock()
		h.Batch = 300
		h.mu.Unlock()
		sleepTo(start, 60*time.Second)
		for _, b := range h.driver.Renewed()[n:] {
			if len(b) > 300 {
				t.Errorf("a batch of %d", len(b))
			}
		}
		if len(h.list(t)) != 1000 {
			t.Errorf("%d leases are left", len(h.list(t)))
		}
		h.done(t)
	})
}

func TestHangingRequestsAreBoundedAndDelayNobodyForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.Timeout = 500 * time.Millisecond
		h.Batch = 1
		hanging, most := 0, 0
		var mu sync.Mutex
		h.driver.OnRenew(func(ctx context.Context, l []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			if l[0].Key < "k5" {
				mu.Lock()
				hanging++
				most = max(most, hanging)
				mu.Unlock()
				<-ctx.Done()
				mu.Lock()
				hanging--
				mu.Unlock()
				return nil, ctx.Err()
			}
			return h.store.Renew(ctx, l)
		})
		start := time.Now()
		var holders []*holder
		for i := range 10 {
			_, ho := h.take(t, terms(fmt.Sprint("k", i)))
			holders = append(holders, ho)
		}
		sleepTo(start, 20*time.Second)
		for i, ho := range holders {
			if lost := ho.seen().ended != nil; lost != (i < 5) {
				t.Errorf("k%d: %v", i, ho.seen().ended)
			}
		}
		if most > maxCalls {
			t.Errorf("%d requests at once", most)
		}
		h.done(t)
	})
}

func TestMaxHoldAndAlarms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		start := time.Now()
		tm := terms("k")
		tm.MaxHold, tm.HoldAlarm = 50*time.Second, 10*time.Second
		l, ho := h.take(t, tm)
		sleepTo(start, 49*time.Second)
		if ho.seen().ended != nil {
			t.Fatal(ho.seen().ended)
		}
		sleepTo(start, 90*time.Second)
		if !errors.Is(ho.seen().ended, ErrMaxHold) || ho.seen().endedAt != 50*time.Second || !errors.Is(l.Err(), ErrMaxHold) {
			t.Errorf("ended at %s: %v, Err: %v", ho.seen().endedAt, ho.seen().ended, l.Err())
		}
		if n := len(ho.seen().renewed); ho.seen().renewed[n-1] > 50*time.Second {
			t.Error("renewed after the max hold")
		}
		if fmt.Sprint(ho.seen().alarms) != "[10s 20s 40s]" {
			t.Errorf("alarms at %v", ho.seen().alarms)
		}
		h.done(t)
	})
}

func TestStopEndsRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		start := time.Now()
		l, ho := h.take(t, terms("k"))
		sleepTo(start, 4*time.Second)
		if cause, told := l.Stop(); cause != nil || told {
			t.Errorf("Stop: %v, %v", cause, told)
		}
		if cause, told := l.Stop(); cause != nil || !told {
			t.Errorf("second Stop: %v, %v", cause, told)
		}
		sleepTo(start, 30*time.Second)
		if len(ho.seen().renewed) != 1 || ho.seen().ended != nil {
			t.Errorf("renewed at %v, ended %v", ho.seen().renewed, ho.seen().ended)
		}
		if h.running {
			t.Error("the goroutine goes on without a lease")
		}
		h.done(t)
	})
}

func TestStopFindsTheEndThatNobodyToldYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		l, ho := h.take(t, terms("k"))
		synctest.Wait()
		h.mu.Lock()
		l.trustUntil = time.Now() // and the keeper's goroutine does not know yet
		h.mu.Unlock()
		if cause, told := l.Stop(); !errors.Is(cause, dibsdriver.ErrLost) || told {
			t.Errorf("cause %v, told %v", cause, told)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if ho.seen().ended != nil {
			t.Error("told after Stop")
		}
		h.done(t)
	})
}

func TestAddRefusesWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		start := time.Now()
		time.Sleep(8100 * time.Millisecond)
		if _, ok := h.Add(terms("k"), &holder{}, start, 9*time.Second); ok {
			t.Error("took a lease whose window is over")
		}
		h.store.Acquire(context.Background(), dibsdriver.AcquireParams{Key: "k2", Owner: terms("k2").Owner, TTL: time.Minute})
		l, ok := h.Add(terms("k2"), &holder{}, start, 20*time.Second) // the store granted more: a min hold
		if !ok || l.Remaining() != 11*time.Second {
			t.Errorf("%v, remaining %s", ok, l.Remaining())
		}
		h.done(t)
	})
}

func TestALeaseIsNeverShortened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		start := time.Now()
		h.store.Acquire(context.Background(), dibsdriver.AcquireParams{Key: "k", Owner: terms("k").Owner, TTL: time.Minute})
		l, _ := h.Add(terms("k"), &holder{}, start, time.Minute)
		sleepTo(start, 20*time.Second)
		if want := 40*time.Second - 900*time.Millisecond; l.Remaining() != want {
			t.Errorf("remaining %s, want %s", l.Remaining(), want)
		}
		h.done(t)
	})
}

func TestVerify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		start := time.Now()
		l, ho := h.take(t, terms("k"))
		sleepTo(start, time.Second)
		if err := l.Verify(context.Background()); err != nil || l.Remaining() != 8100*time.Millisecond {
			t.Errorf("%v, remaining %s", err, l.Remaining())
		}
		h.store.Fail(errors.New("down"))
		if err := l.Verify(context.Background()); !errors.Is(err, dibsdriver.ErrUnavailable) || l.Err() != nil {
			t.Errorf("%v, %v", err, l.Err())
		}
		h.store.Fail(nil)
		h.driver.OnRenew(func(ctx context.Context, _ []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			return nil, ctx.Err()
		})
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		if err := l.Verify(ctx); err != context.DeadlineExceeded {
			t.Error(err)
		}
		if err := l.Verify(context.Background()); !errors.Is(err, dibsdriver.ErrUnavailable) {
			t.Error(err)
		}
		h.driver.OnRenew(nil)
		h.store.Expire("k")
		if err := l.Verify(context.Background()); !errors.Is(err, dibsdriver.ErrLost) {
			t.Error(err)
		}
		synctest.Wait()
		if !errors.Is(ho.seen().ended, dibsdriver.ErrLost) {
			t.Error("the holder was not told")
		}
		if err := l.Verify(context.Background()); !errors.Is(err, dibsdriver.ErrLost) {
			t.Error(err)
		}
		h.done(t)
	})
}
