package keeper

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

func TestADetachedLeaseIsRenewedAndTellsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		l, first := h.take(t, terms("k"))
		second := &holder{start: time.Now()}
		if !l.Detach(time.Second) {
			t.Fatal("not detached")
		}
		time.Sleep(20 * time.Second)
		if got := first.seen(); len(got.renewed) != 0 || got.ended != nil {
			t.Errorf("its old holder was told: %+v", got)
		}
		if !l.Attach(second, 0, 0) || l.Err() != nil {
			t.Fatal("it was not renewed on its way")
		}
		time.Sleep(20 * time.Second)
		h.store.Expire("k")
		time.Sleep(5 * time.Second)
		if got := second.seen(); len(got.renewed) < 5 || !errors.Is(got.ended, dibsdriver.ErrLost) {
			t.Errorf("its new holder was told: %+v", got)
		}
		if got := first.seen(); len(got.renewed) != 0 || got.ended != nil {
			t.Errorf("its old holder was told: %+v", got)
		}
		h.done(t)
	})
}

func TestDetachRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		need   time.Duration
		before func(h *house, l *Lease)
	}{
		"what has too little left": {need: 7 * time.Second, before: func(h *house, _ *Lease) {
			h.driver.OnRenew(func(context.Context, []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
				return nil, errors.New("away")
			})
			time.Sleep(2 * time.Second)
		}},
		"what was lost":    {before: func(h *house, _ *Lease) { h.store.Expire("k"); time.Sleep(4 * time.Second) }},
		"what was stopped": {before: func(_ *house, l *Lease) { l.Stop() }},
		"what is in doubt": {before: func(h *house, _ *Lease) {
			h.driver.OnRenew(func(ctx context.Context, _ []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
			h.wall.Store(int64(time.Minute))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse()
				l, _ := h.take(t, terms("k"))
				c.before(h, l)
				if l.Detach(c.need) {
					t.Error("detached")
				}
				l.Stop()
				h.done(t)
			})
		})
	}
}

// TestAttachRefusesWhatHasEnded on its way from one holder to the next.
func TestAttachRefusesWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		l, _ := h.take(t, terms("k"))
		if !l.Detach(0) {
			t.Fatal("not detached")
		}
		h.store.Expire("k")
		time.Sleep(4 * time.Second)
		second := &holder{start: time.Now()}
		if l.Attach(second, 0, 0) {
			t.Error("attached")
		}
		if second.seen().ended != nil {
			t.Error("told of a lease that it never had")
		}
		h.done(t)
	})
}

// TestB05_AttachRefusesWhatIsInDoubt: the machine slept while the lease was on its way.
func TestB05_AttachRefusesWhatIsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		l, _ := h.take(t, terms("k"))
		if !l.Detach(0) {
			t.Fatal("not detached")
		}
		h.wall.Add(int64(time.Hour))
		second := &holder{start: time.Now()}
		if l.Attach(second, 0, 0) {
			t.Error("attached")
		}
		time.Sleep(time.Minute)
		if _, n, _ := h.driver.Counts(); n > 1 || second.seen().ended != nil || len(second.seen().renewed) > 0 {
			t.Errorf("still kept: %d renewals, %+v", n, second.seen())
		}
		h.done(t)
	})
}

// TestTheHoldBeginsAnewWithEachHolder: its limit and its alarm count from then on, and those of the last are over.
func TestTheHoldBeginsAnewWithEachHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		l, first := h.take(t, terms("k"))
		second := &holder{start: time.Now()}
		l.Detach(0)
		l.Attach(first, 20*time.Second, 15*time.Second)
		time.Sleep(10 * time.Second)
		l.Detach(0)
		l.Attach(second, 30*time.Second, 25*time.Second)
		time.Sleep(24 * time.Second)
		if a, b := first.seen(), second.seen(); a.ended != nil || b.ended != nil || len(a.alarms)+len(b.alarms) > 0 {
			t.Errorf("too early: %+v, %+v", a, b)
		}
		time.Sleep(7 * time.Second)
		if got := second.seen(); !errors.Is(got.ended, ErrMaxHold) || got.endedAt != 40*time.Second || len(got.alarms) != 1 || got.alarms[0] != 25*time.Second {
			t.Errorf("%+v", got)
		}
		h.done(t)
	})
}

// TestDetachAfterTheMaxHold that the goroutine has not noticed yet.
func TestDetachAfterTheMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		l, _ := h.take(t, terms("k"))
		h.mu.Lock()
		l.maxAt = time.Now()
		h.mu.Unlock()
		if l.Detach(0) {
			t.Error("detached a lease that was held for too long")
		}
		l.Stop()
		h.done(t)
	})
}
