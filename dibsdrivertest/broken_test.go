package dibsdrivertest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/dibsmem"
)

// A checker that has never found anything may be blind. These are drivers that break one promise each, and the random test has to see it.
func TestHistoryFindsBrokenDrivers(t *testing.T) {
	for name, c := range map[string]struct {
		driver func(*dibsmem.Store) dibsdriver.Driver
		finds  []string
	}{
		"takes_before_expiry":  {func(s *dibsmem.Store) dibsdriver.Driver { return &thief{Store: s} }, []string{"overlap: ", "model: "}},
		"renewal_does_nothing": {func(s *dibsmem.Store) dibsdriver.Driver { return liar{s} }, []string{"overlap: ", "model: "}},
		"releases_anybodys":    {func(s *dibsmem.Store) dibsdriver.Driver { return sloppy{s} }, []string{"overlap: ", "model: "}},
		"tokens_do_not_rise":   {func(s *dibsmem.Store) dibsdriver.Driver { return flat{s} }, []string{"tokens: ", "model: "}},
		"dead_leases_stay": {func(s *dibsmem.Store) dibsdriver.Driver { return &sticky{Store: s, until: map[string]time.Time{}} },
			[]string{"stuck: "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := Factory{Name: name, Bubble: true, New: func(testing.TB) Store { return broken{c.driver(dibsmem.New())} }}
			h := historyInBubble(t, f, newSeed(t), time.Minute)
			found := h.check()
			for _, want := range c.finds {
				if !slices.ContainsFunc(found, func(v string) bool { return strings.HasPrefix(v, want) }) {
					t.Errorf("want %q, found %q in: %s", want, found, h.tally())
				}
			}
		})
	}
}

// broken is a store of one driver.
type broken struct{ d dibsdriver.Driver }

func (b broken) Driver(testing.TB) dibsdriver.Driver     { return b.d }
func (b broken) URL() string                             { return "" }
func (b broken) Peek(t testing.TB, key string) (l Lease) { return PeekByList(t, b.d, key) }

// thief gives a busy key away now and then.
type thief struct {
	*dibsmem.Store
	mu   sync.Mutex
	busy int
}

func (d *thief) Acquire(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
	r, err := d.Store.Acquire(ctx, p)
	if err != nil || r.Acquired || r.Holder.Token == 0 {
		return r, err
	}
	d.mu.Lock()
	d.busy++
	steal := d.busy%50 == 0
	d.mu.Unlock()
	if !steal {
		return r, err
	}
	_, _ = d.Break(ctx, dibsdriver.BreakParams{Key: p.Key, Token: r.Holder.Token, Now: true})
	return d.Store.Acquire(ctx, p)
}

// liar says that it has renewed.
type liar struct{ *dibsmem.Store }

func (d liar) Renew(_ context.Context, leases []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
	answers := make([]dibsdriver.RenewAnswer, len(leases))
	for i := range answers {
		answers[i] = dibsdriver.Renewed
	}
	return answers, nil
}

// sloppy releases without a look at the owner.
type sloppy struct{ *dibsmem.Store }

func (d sloppy) Release(ctx context.Context, p dibsdriver.ReleaseParams) error {
	err := d.Store.Release(ctx, p)
	if !errors.Is(err, dibsdriver.ErrLost) {
		return err
	}
	records, _ := d.List(ctx, p.Key)
	for _, r := range records {
		_, _ = d.Break(ctx, dibsdriver.BreakParams{Key: r.Key, Token: r.Token, Now: true})
	}
	return nil
}

// flat gives tokens that rise for each process, but not for all.
type flat struct{ *dibsmem.Store }

func (d flat) Acquire(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
	r, err := d.Store.Acquire(ctx, p)
	if r.Acquired {
		r.Token = p.Floor + dibsdriver.TokenStep
	}
	return r, err
}

// sticky keeps the key of a dead holder for long after its lease.
type sticky struct {
	*dibsmem.Store
	mu    sync.Mutex
	until map[string]time.Time
}

func (d *sticky) Acquire(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Now().Before(d.until[p.Key]) {
		return dibsdriver.AcquireResult{Holder: dibsdriver.Record{Key: p.Key, Token: 1, ExpiresIn: time.Second}}, nil
	}
	r, err := d.Store.Acquire(ctx, p)
	if r.Acquired {
		d.until[p.Key] = time.Now().Add(20 * time.Second)
	}
	return r, err
}

// Wait cannot tell when a key is free that the store itself thinks is.
func (d *sticky) Wait(context.Context, dibsdriver.WaitParams) error { return errors.ErrUnsupported }

func (d *sticky) Release(ctx context.Context, p dibsdriver.ReleaseParams) error {
	err := d.Store.Release(ctx, p)
	if err == nil {
		d.mu.Lock()
		delete(d.until, p.Key)
		d.mu.Unlock()
	}
	return err
}
