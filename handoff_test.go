package dibs_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/dibsmem"
)

// joins starts a waiter, which sends its lock.
func (h *house) joins(t *testing.T, opts ...dibs.Option) <-chan *dibs.Lock {
	t.Helper()
	got := make(chan *dibs.Lock, 1)
	go func() {
		lock, _, err := h.Acquire(context.Background(), "k", opts...)
		if err != nil {
			t.Error(err)
		}
		got <- lock
	}()
	synctest.Wait()
	return got
}

// moves is how often the store was asked for an acquisition and a release.
func (h *house) moves() string {
	acquires, _, releases := h.driver.Counts()
	return fmt.Sprint(acquires, " ", releases)
}

func TestAReleaseHandsTheLeaseOn(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		first, work := h.take(t)
		second, third := h.joins(t), h.joins(t)
		for i, next := range []<-chan *dibs.Lock{second, third} {
			want(t, first.Release(), nil...)
			lock := <-next
			if lock.Token() != first.Token()+1 || lock.Err() != nil || lock.Remaining() != first.Remaining() && lock.Remaining() <= 0 {
				t.Errorf("handoff %d: token %d after %d, %v", i, lock.Token(), first.Token(), lock.Err())
			}
			want(t, first.Err(), dibs.ErrReleased)
			want(t, context.Cause(work), dibs.ErrReleased)
			want(t, first.Release(), dibs.ErrReleased)
			want(t, first.Verify(context.Background()), dibs.ErrReleased)
			first = lock
		}
		if got := h.moves(); got != "1 0" {
			t.Errorf("acquisitions and releases at the store: %s, want 1 0", got)
		}
		want(t, first.Verify(context.Background()), nil...)
		token := first.Token()
		want(t, first.Release(), nil...)
		if got := h.moves(); got != "1 1" {
			t.Errorf("acquisitions and releases at the store: %s, want 1 1", got)
		}
		again, _ := h.take(t)
		if again.Token() <= token {
			t.Errorf("token %d after %d", again.Token(), token)
		}
		want(t, again.Release(), nil...)
		if got, want := h.heard(), "waited, acquired, released, waited, acquired, released, waited, acquired, released, waited, acquired, released"; got != want {
			t.Errorf("events: %s", got)
		}
	})
}

// TestWhatIsNotHandedOn goes through the store: it is another lease that the next one wants, or there is not enough left of this one.
func TestWhatIsNotHandedOn(t *testing.T) {
	for name, c := range map[string]struct {
		first, next []dibs.Option
		before      func(h *house)
	}{
		"another TTL":         {next: []dibs.Option{dibs.TTL(time.Minute)}},
		"another note":        {next: []dibs.Option{dibs.Note("n")}},
		"its own min hold":    {first: []dibs.Option{dibs.MinHold(time.Second)}, next: []dibs.Option{dibs.MinHold(time.Second)}},
		"the next's min hold": {next: []dibs.Option{dibs.MinHold(time.Second)}},
		"little is left": {before: func(h *house) {
			h.driver.OnRenew(func(context.Context, []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
				return nil, errors.New("away")
			})
			time.Sleep(20 * time.Second)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
				lock, _ := h.take(t, c.first...)
				next := h.joins(t, c.next...)
				if c.before != nil {
					c.before(h)
				}
				want(t, lock.Release(), nil...)
				second := <-next
				h.driver.OnRenew(nil)
				if second.Token() < lock.Token()+dibsdriver.TokenStep {
					t.Errorf("token %d after %d: it was handed on", second.Token(), lock.Token())
				}
				want(t, second.Release(), nil...)
			})
		})
	}
}

// TestNothingIsHandedOnAfterALoss, nor after the max hold: somebody else may have the key.
func TestNothingIsHandedOnAfterALoss(t *testing.T) {
	for name, lose := range map[string]func(h *house){
		"lost": func(h *house) {
			h.store.Expire("k")
			time.Sleep(15 * time.Second)
		},
		"lost without having noticed": func(h *house) {
			h.driver.OnRenew(func(ctx context.Context, _ []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
			time.Sleep(29 * time.Second)
		},
		"max hold": func(*house) { time.Sleep(2 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, dibs.Config{MaxHold: time.Minute}, func(t *testing.T, h *house) {
				lock, _ := h.take(t)
				next := h.joins(t)
				lose(h)
				if err := lock.Release(); err == nil {
					t.Error("released a lock that had ended")
				}
				h.driver.OnRenew(nil)
				if second := <-next; second.Token() < lock.Token()+dibsdriver.TokenStep {
					t.Errorf("token %d after %d: it was handed on", second.Token(), lock.Token())
				} else {
					want(t, second.Release(), nil...)
				}
			})
		})
	}
}

// TestMaxHoldAndAlarmCountForEachSection: who gets the lease by a handoff has as much time as anybody.
func TestMaxHoldAndAlarmCountForEachSection(t *testing.T) {
	bubble(t, dibs.Config{MaxHold: time.Minute, HoldAlarm: 40 * time.Second}, func(t *testing.T, h *house) {
		lock, _ := h.take(t)
		next := h.joins(t)
		time.Sleep(30 * time.Second)
		want(t, lock.Release(), nil...)
		second := <-next
		began := time.Now()
		time.Sleep(45 * time.Second)
		if e := h.event("hold alarm"); e.Token != second.Token() || e.For != 40*time.Second {
			t.Errorf("the alarm: %+v", e)
		}
		want(t, second.Err(), nil...)
		time.Sleep(time.Minute - time.Since(began) + time.Millisecond)
		want(t, second.Err(), dibs.ErrMaxHold)
		if e := h.event("max hold"); e.Token != second.Token() || e.For != time.Minute {
			t.Errorf("max hold: %+v", e)
		}
		want(t, second.Release(), dibs.ErrMaxHold)
	})
}

// TestALeaseIsRenewedOverHandoffs: sections that are all shorter than the time between renewals do not starve them.
func TestALeaseIsRenewedOverHandoffs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openPlain(t, dibsmem.New())
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		var all sync.WaitGroup
		var sections atomic.Int64
		for range 10 {
			all.Go(func() {
				for ctx.Err() == nil {
					err := h.Do(ctx, "k", func(ctx context.Context) error {
						sections.Add(1)
						time.Sleep(time.Second)
						return context.Cause(ctx)
					})
					if err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if sections.Load() < 295 {
			t.Errorf("%d sections of a second in 5 minutes", sections.Load())
		}
		if err := h.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// openPlain is a Locker on the store itself, whose waiters are woken.
func openPlain(t *testing.T, store *dibsmem.Store) *dibs.Locker {
	t.Helper()
	l, err := dibs.New(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestALeaseThatWasHandedOnIsLostLikeAnyOther: the one who is told is who has it now.
func TestALeaseThatWasHandedOnIsLostLikeAnyOther(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		lock, _ := h.take(t)
		next := h.joins(t)
		h.driver.OnRenew(func(context.Context, []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			return nil, errors.New("away")
		})
		time.Sleep(10 * time.Second) // two thirds of the window are left
		want(t, lock.Release(), nil...)
		second := <-next
		time.Sleep(25 * time.Second)
		want(t, second.Err(), dibs.ErrLost)
		if e := h.event("lost"); e.Token != second.Token() {
			t.Errorf("lost: %+v", e)
		}
		h.driver.OnRenew(nil)
		want(t, second.Release(), dibs.ErrLost)
	})
}

// TestAWaiterThatLeavesInTheMomentOfTheHandoff leaves nothing behind.
func TestAWaiterThatLeavesInTheMomentOfTheHandoff(t *testing.T) {
	for range 200 {
		bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
			lock, _ := h.take(t)
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() {
				defer close(done)
				if lock, _, err := h.Acquire(ctx, "k"); err == nil {
					want(t, lock.Release(), nil...)
				}
			}()
			synctest.Wait()
			go cancel()
			want(t, lock.Release(), nil...)
			<-done
			last, _ := h.take(t)
			want(t, last.Release(), nil...)
			if left := h.left(t, "k"); left != 0 {
				t.Errorf("the key is taken for %s", left)
			}
		})
	}
}
