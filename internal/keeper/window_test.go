package keeper

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// TestARequestEndsWithTheWindow: however long a request may take, one that hangs is given up when its answer would be of no use any more. Otherwise a few
// that a bad connection has swallowed would take all the places for minutes, and a lease would be lost that the store would renew at once.
func TestARequestEndsWithTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.Timeout = time.Minute
		start := time.Now()
		l, ho := h.take(t, terms("k"))
		var asked atomic.Int32
		h.driver.OnRenew(func(ctx context.Context, leases []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			if asked.Add(1)%2 == 1 {
				began := time.Now()
				<-ctx.Done()
				if d := time.Since(began); d != 8100*time.Millisecond {
					t.Errorf("given up after %s, want the trust window", d)
				}
				return nil, ctx.Err()
			}
			return h.store.Renew(ctx, leases)
		})
		sleepTo(start, 2*time.Minute)
		if err := l.Err(); err != nil || ho.seen().ended != nil {
			t.Errorf("every second renewal succeeds at once, and the lease was lost at %s: %v", ho.seen().endedAt, err)
		}
		h.driver.OnRenew(nil)
		time.Sleep(time.Minute)
		l.Stop()
		h.done(t)
	})
}

// TestTheMarginGrowsWithTheLease: a lease that was taken for a min hold lives longer than its TTL, and clocks that differ by 0.1 % are further apart in the end.
func TestTheMarginGrowsWithTheLease(t *testing.T) {
	for life, trusted := range map[time.Duration]time.Duration{
		10 * time.Second: 9 * time.Second,              // the TTL: the margin as it is
		15 * time.Minute: 15*time.Minute - time.Second, // 0.1 % is less
		2 * time.Hour:    2*time.Hour - 7200*time.Millisecond,
		24 * time.Hour:   24*time.Hour - 86400*time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse()
			h.driver.OnRenew(func(context.Context, []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
				return nil, dibsdriver.ErrUnavailable
			})
			start := time.Now()
			l, ok := h.Add(Terms{Key: "k", Owner: "o", TTL: 10 * time.Second, Margin: time.Second}, &holder{start: start}, start, life)
			if !ok {
				t.Fatal("the keeper did not take the lease")
			}
			sleepTo(start, trusted-time.Nanosecond)
			if err := l.Err(); err != nil {
				t.Errorf("%s: %v", life, err)
			}
			sleepTo(start, trusted)
			if err := l.Err(); !errors.Is(err, dibsdriver.ErrLost) {
				t.Errorf("%s: trusted for longer than %s: %v", life, trusted, err)
			}
			h.done(t)
		})
	}
}
