package keeper

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// TestASleepAfterTheClockWasSetBackIsNoticed: it counts from where the clock was set to, not from where it had been.
func TestASleepAfterTheClockWasSetBackIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		long := Terms{Key: "before", Owner: "o", TTL: time.Hour, Margin: time.Second}
		h.take(t, long)
		h.wall.Add(-int64(3 * time.Hour))
		time.Sleep(2 * maxSleep)
		long.Key = "after"
		_, ho := h.take(t, long)
		h.store.Expire("after")
		h.wall.Add(int64(time.Hour))
		time.Sleep(maxSleep)
		synctest.Wait()
		if !errors.Is(ho.seen().ended, dibsdriver.ErrLost) {
			t.Errorf("ended: %v", ho.seen().ended)
		}
		h.done(t)
	})
}

// TestSmallGapsAddUp: the one that makes a sleep of them may itself be the smallest.
func TestSmallGapsAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.take(t, Terms{Key: "k", Owner: "o", TTL: time.Hour, Margin: time.Second})
		h.wall.Add(int64(time.Second))
		time.Sleep(2 * maxSleep)
		if _, n, _ := h.driver.Counts(); n != 0 {
			t.Fatalf("%d questions before the gap", n)
		}
		h.wall.Add(int64(smallestGap))
		time.Sleep(maxSleep)
		synctest.Wait()
		if _, n, _ := h.driver.Counts(); n != 1 {
			t.Errorf("%d questions", n)
		}
		h.done(t)
	})
}

// TestAGapOfTheMarginLeavesTheAnswerGood: so much is what the margin is for.
func TestAGapOfTheMarginLeavesTheAnswerGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		start := time.Now()
		_, ho := h.take(t, terms("k"))
		h.driver.OnRenew(func(ctx context.Context, l []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			h.wall.Add(int64(terms("k").Margin))
			h.driver.OnRenew(nil)
			return h.store.Renew(ctx, l)
		})
		sleepTo(start, 3*time.Second)
		if got := ho.seen().renewed; len(got) != 1 {
			t.Errorf("renewed at %v", got)
		}
		h.done(t)
	})
}

// TestWhatIsOverButNotNoticedYet is over for whoever asks, before the keeper's goroutine has run.
func TestWhatIsOverButNotNoticedYet(t *testing.T) {
	for name, asks := range map[string]func(l *Lease) bool{
		"Detach":    func(l *Lease) bool { return l.Detach(0) },
		"Attach":    func(l *Lease) bool { return l.Attach(&holder{}, 0, 0) },
		"Remaining": func(l *Lease) bool { return l.Remaining() > 0 },
		"Err":       func(l *Lease) bool { return l.Err() == nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse()
				l, _ := h.take(t, terms("k"))
				synctest.Wait()
				h.mu.Lock()
				l.trustUntil = time.Now()
				h.mu.Unlock()
				if asks(l) {
					t.Error("trusted")
				}
				h.done(t)
			})
		})
	}
}

func TestWhatWasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		l, _ := h.take(t, terms("k"))
		h.wall.Add(int64(time.Hour))
		if err := l.Err(); !errors.Is(err, dibsdriver.ErrUnavailable) {
			t.Errorf("in doubt: %v", err)
		}
		l.Stop()
		if err := l.Err(); err != nil {
			t.Errorf("stopped in doubt, and: %v", err)
		}
		other, _ := h.take(t, terms("other"))
		other.Stop()
		if d := other.Remaining(); d != 0 {
			t.Errorf("%s left of a lease that was stopped", d)
		}
		if other.Attach(&holder{}, 0, 0) {
			t.Error("attached")
		}
		h.done(t)
	})
}

func TestDetachWithJustEnoughLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		l, _ := h.take(t, terms("k"))
		if l.Detach(8100*time.Millisecond+1) || !l.Detach(8100*time.Millisecond) {
			t.Error("what is left is 8.1 s, to the nanosecond")
		}
		h.done(t)
	})
}
