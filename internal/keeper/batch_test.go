package keeper

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

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

func TestAShortLeaseBesideALongOneIsNotSleptOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.take(t, Terms{Key: "long", Owner: "o", TTL: time.Hour, Margin: time.Second})
		synctest.Wait() // the keeper sleeps
		start := time.Now()
		_, ho := h.take(t, Terms{Key: "short", Owner: "o", TTL: 600 * time.Millisecond, Margin: 60 * time.Millisecond})
		sleepTo(start, 5*time.Second)
		if ho.seen().ended != nil || ho.seen().renewed[0] != 200*time.Millisecond {
			t.Errorf("renewed at %v, ended %v", ho.seen().renewed[:1], ho.seen().ended)
		}
		h.done(t)
	})
}

func TestALeaseStoppedInFlightLeavesTheRestOfItsBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		start := time.Now()
		var leases []*Lease
		var holders []*holder
		for i := range 5 {
			l, ho := h.take(t, terms(fmt.Sprint("k", i)))
			leases, holders = append(leases, l), append(holders, ho)
		}
		h.driver.OnRenew(func(ctx context.Context, l []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			a, err := h.store.Renew(ctx, l)
			time.Sleep(time.Second)
			return a, err
		})
		sleepTo(start, 3500*time.Millisecond)
		leases[0].Stop()
		leases[2].Stop()
		sleepTo(start, 4*time.Second)
		for i, ho := range holders {
			if stopped := i == 0 || i == 2; len(ho.seen().renewed) == 1 == stopped {
				t.Errorf("lease %d: renewed at %v", i, ho.seen().renewed)
			}
		}
		h.done(t)
	})
}

func TestTheGoroutineEndsWithTheLastLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		l, _ := h.take(t, terms("k"))
		synctest.Wait()
		start := time.Now()
		l.Stop()
		h.Group.Wait(context.Background())
		if took := time.Since(start); took != 0 {
			t.Errorf("it lived on for %s", took)
		}
		if err := l.Err(); err != nil {
			t.Errorf("a lease that was stopped in good order: %v", err)
		}
		h.done(t)
	})
}
