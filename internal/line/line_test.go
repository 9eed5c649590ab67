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
	"github.com/dibs-go/dibs/internal/call"
	"github.com/dibs-go/dibs/internal/hooked"
	"github.com/dibs-go/dibs/internal/keeper"
	"github.com/dibs-go/dibs/internal/seen"
	"github.com/dibs-go/dibs/internal/settle"
)

// house is the lines of one process on a memory store, whose waiters poll.
type house struct {
	*Lines
	store  *dibsmem.Store
	driver *hooked.Driver
}

func newHouse(store *dibsmem.Store) *house {
	h := &house{store: store, driver: hooked.New(store)}
	h.Lines = linesOn(h.driver)
	return h
}

func linesOn(d dibsdriver.Driver) *Lines {
	group := call.NewGroup()
	limits, _ := d.Limits()
	return &Lines{
		Driver: d, Limits: limits, Group: group, Seen: seen.New(10), Timeout: 5 * time.Second, Holder: "me",
		Settler: &settle.Settler{Driver: d, Group: group, Timeout: 5 * time.Second},
	}
}

var terms = Terms{TTL: 30 * time.Second, Margin: time.Second}

// unheard is a holder that nobody tells anything.
type unheard struct{}

func (unheard) LeaseEnded(error)        {}
func (unheard) LeaseRenewed()           {}
func (unheard) HoldAlarm(time.Duration) {}

// keep begins a section with the grant, as the root package does.
func (h *house) keep(t *testing.T, g Grant) *keeper.Lease {
	t.Helper()
	if g.Lease != nil {
		if !g.Lease.Attach(unheard{}, 0, 0) {
			t.Error("the lease that was handed on has ended")
		}
		return g.Lease
	}
	k := &keeper.Keeper{Driver: h.Driver, Group: h.Group, Timeout: h.Timeout}
	lease, ok := k.Add(keeper.Terms{Key: "k", Owner: g.Owner, TTL: terms.TTL, Margin: terms.Margin}, unheard{}, g.Started, g.Life)
	if !ok {
		t.Fatal("the lease has ended")
	}
	return lease
}

// release gives a granted lease back, as a section does.
func (h *house) release(key string, g Grant) {
	h.Settler.Release(settle.Release{Key: key, Owner: g.Owner, Life: g.Life}, time.Now())
	h.Ended(key, g.Owner)
}

// other has the key in another process.
func (h *house) other(t *testing.T, ttl time.Duration) {
	t.Helper()
	r, err := h.store.Acquire(t.Context(), dibsdriver.AcquireParams{Key: "k", Owner: "other", Holder: "another", TTL: ttl})
	if err != nil || !r.Acquired {
		t.Fatal(r, err)
	}
}

func (h *house) free(t *testing.T) {
	t.Helper()
	if err := h.store.Release(t.Context(), dibsdriver.ReleaseParams{Key: "k", Owner: "other"}); err != nil {
		t.Fatal(err)
	}
}

func (h *house) holders(t *testing.T) int {
	t.Helper()
	all, err := h.store.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// done requires that nothing is left.
func (h *house) done(t *testing.T) {
	t.Helper()
	h.Close(dibsdriver.ErrClosed)
	h.Group.Wait(context.Background())
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, l := range h.lines {
		t.Errorf("left behind: line of %q, %d waiters, running %v, held %v", key, len(l.waiters), l.running, l.held != nil)
	}
}

func busy(t *testing.T, err error) *BusyError {
	t.Helper()
	b, ok := errors.AsType[*BusyError](err)
	if !ok {
		t.Errorf("not busy: %v", err)
		return &BusyError{}
	}
	return b
}

func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		h.other(t, time.Hour)
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				g, err := h.Join(t.Context(), "k", terms, Forever)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(time.Second)
				h.release("k", g)
			})
			synctest.Wait()
		}
		n, _, _ := h.driver.Counts()
		if n > 3 {
			t.Errorf("%d requests while 200 came: only the head may ask", n)
		}
		h.free(t)
		wg.Wait()
		for i, got := range order {
			if got != i {
				t.Fatalf("order %v", order)
			}
		}
		h.done(t)
	})
}

func TestOwnersAreNewAndTokensRise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		var last int64
		for range 20 {
			g, err := h.Join(t.Context(), "k", terms, 0)
			if err != nil {
				t.Fatal(err)
			}
			if g.Token < last+dibsdriver.TokenStep {
				t.Errorf("token %d after %d", g.Token, last)
			}
			last = g.Token
			h.release("k", g)
		}
		owners := map[string]bool{}
		for _, p := range h.driver.Acquired() {
			if owners[p.Owner] || len(p.Owner) != dibsdriver.OwnerLen {
				t.Errorf("owner %q", p.Owner)
			}
			owners[p.Owner] = true
		}
		if p := h.driver.Acquired()[19]; p.Floor != last-dibsdriver.TokenStep && p.Floor >= last {
			t.Errorf("floor %d, last token %d", p.Floor, last)
		}
		h.done(t)
	})
}

func TestATokenThatDoesNotRiseIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		g, _ := h.Join(t.Context(), "k", terms, 0)
		h.release("k", g)
		for _, token := range []int64{g.Token - 5000, g.Token, dibsdriver.MaxToken + 1} {
			h.driver.OnAcquire(func(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
				r, err := h.store.Acquire(ctx, p)
				r.Token = token
				return r, err
			})
			if _, err := h.Join(t.Context(), "k", terms, 0); !errors.Is(err, dibsdriver.ErrUnavailable) {
				t.Errorf("token %d: %v", token, err)
			}
			synctest.Wait()
			if h.holders(t) != 0 {
				t.Error("not given back")
			}
		}
		h.done(t)
	})
}

func TestOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		start := time.Now()
		h.other(t, time.Hour)
		time.Sleep(time.Minute)
		_, err := h.Join(t.Context(), "k", terms, 0)
		if b := busy(t, err); b.Holder.Holder != "another" || b.Left != 59*time.Minute {
			t.Errorf("%+v", b)
		}
		go h.Join(t.Context(), "k", terms, Forever)
		synctest.Wait()
		h.free(t) // and before the waiter has noticed:
		n, _, _ := h.driver.Counts()
		_, err = h.Join(t.Context(), "k", terms, 0)
		busy(t, err)
		if m, _, _ := h.driver.Counts(); m != n {
			t.Error("an attempt jumped the line")
		}
		if time.Since(start) != time.Minute {
			t.Errorf("an attempt took %s", time.Since(start)-time.Minute)
		}
		time.Sleep(time.Second) // the waiter has it now
		_, err = h.Join(t.Context(), "k", terms, 0)
		busy(t, err)
		if m, _, _ := h.driver.Counts(); m != n+1 {
			t.Errorf("%d requests for a key that this process has", m-n-1)
		}
		h.Close(dibsdriver.ErrClosed)
	})
}

func TestHeldShowsWhatTheLineWasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		g, _ := h.Join(t.Context(), "k", terms, 0)
		_, err := h.Join(t.Context(), "k", terms, 0)
		if b := busy(t, err); b.Left != 0 {
			t.Errorf("%+v", b)
		}
		lease := h.keep(t, g)
		h.Held("k", "somebody else", lease, dibsdriver.Record{Note: "not ours"})
		h.Held("k", g.Owner, lease, dibsdriver.Record{Token: g.Token, Note: "n"})
		time.Sleep(2 * time.Second)
		_, err = h.Join(t.Context(), "k", terms, 0)
		if b := busy(t, err); b.Left != terms.TTL-terms.Margin-2*time.Second || b.Holder.Note != "n" || b.Holder.ExpiresIn != b.Left {
			t.Errorf("%+v", b)
		}
		h.Ended("k", "somebody else")
		_, err = h.Join(t.Context(), "k", terms, 0)
		busy(t, err)
		lease.Stop()
		h.release("k", g)
		h.release("k", g) // twice is harmless
		h.done(t)
	})
}

func TestWaitIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		h.other(t, time.Hour)
		start := time.Now()
		_, err := h.Join(t.Context(), "k", terms, 2*time.Second)
		busy(t, err)
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("took %s", took)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("lunch"))
		defer cancel()
		_, err = h.Join(ctx, "k", terms, Forever)
		busy(t, err)
		if took := time.Since(start); took != 3*time.Second || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, context.Cause(ctx)) {
			t.Errorf("took %s: %v", took, err)
		}
		h.done(t)
	})
}

func TestAShortTTLDoesNotShortenTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		h.other(t, 6*time.Second)
		start := time.Now()
		short := Terms{TTL: time.Second, Margin: 100 * time.Millisecond}
		g, err := h.Join(t.Context(), "k", short, 10*time.Second)
		if took := time.Since(start); err != nil || took < 6*time.Second || took > 6100*time.Millisecond {
			t.Errorf("took %s: %v", took, err)
		}
		h.release("k", g)
		h.done(t)
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		h.other(t, time.Hour)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if _, err := h.Join(t.Context(), "k", terms, Forever); err != dibsdriver.ErrClosed {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		h.Close(dibsdriver.ErrClosed)
		wg.Wait()
		if _, err := h.Join(t.Context(), "other", terms, 0); err != dibsdriver.ErrClosed {
			t.Error(err)
		}
		h.done(t)
	})
}

func TestKeysAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		h.driver.OnAcquire(func(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
			if p.Key == "slow" {
				time.Sleep(4 * time.Second)
			}
			return h.store.Acquire(ctx, p)
		})
		go h.Join(t.Context(), "slow", terms, 0)
		synctest.Wait()
		start := time.Now()
		for i := range 10 {
			if _, err := h.Join(t.Context(), fmt.Sprint("k", i), terms, 0); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("took %s", took)
		}
		h.Close(dibsdriver.ErrClosed)
		h.Group.Wait(context.Background())
	})
}
