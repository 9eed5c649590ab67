package keeper

import (
	"context"
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
