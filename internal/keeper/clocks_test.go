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

// A machine that sleeps: the wall clock runs ahead, monotonic clock and timers stand still.

func TestAfterSleepTheStoreIsAskedBeforeItIsBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		start := time.Now()
		l, ho := h.take(t, terms("k"))
		sleepTo(start, 100*time.Millisecond)
		h.store.Expire("k") // while we slept
		h.wall.Add(int64(time.Hour))
		if err := l.Err(); !errors.Is(err, dibsdriver.ErrUnavailable) || l.Remaining() != 0 {
			t.Errorf("still believed: %v, %s", err, l.Remaining())
		}
		synctest.Wait()
		if !errors.Is(ho.seen().ended, dibsdriver.ErrLost) || ho.seen().endedAt != 100*time.Millisecond {
			t.Errorf("ended at %s: %v", ho.seen().endedAt, ho.seen().ended)
		}
		h.done(t)
	})
}

func TestSleepIsNoticedWithoutBeingAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		_, ho := h.take(t, Terms{Key: "k", Owner: "o", TTL: time.Hour, Margin: time.Second})
		time.Sleep(100 * time.Millisecond)
		h.store.Expire("k")
		h.wall.Add(int64(2 * time.Hour))
		time.Sleep(maxSleep)
		synctest.Wait()
		if !errors.Is(ho.seen().ended, dibsdriver.ErrLost) || ho.seen().endedAt > 100*time.Millisecond+maxSleep {
			t.Errorf("ended at %s: %v", ho.seen().endedAt, ho.seen().ended)
		}
		h.done(t)
	})
}

func TestAClockThatWasOnlySetForwardLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		l, ho := h.take(t, terms("k"))
		time.Sleep(100 * time.Millisecond)
		h.wall.Add(int64(time.Hour))
		_ = l.Err()
		synctest.Wait()
		if err := l.Err(); err != nil || len(ho.seen().renewed) != 1 {
			t.Errorf("%v, renewed at %v", err, ho.seen().renewed)
		}
		h.wall.Add(-int64(3 * time.Hour)) // and set back
		time.Sleep(time.Minute)
		h.wall.Add(int64(time.Hour)) // and forward again
		time.Sleep(2 * maxSleep)
		synctest.Wait()
		if err := l.Err(); err != nil || ho.seen().ended != nil {
			t.Errorf("%v, %v", err, ho.seen().ended)
		}
		h.done(t)
	})
}

func TestASmallStepIsNoSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		l, _ := h.take(t, terms("k"))
		time.Sleep(100 * time.Millisecond)
		h.wall.Add(int64(900 * time.Millisecond)) // the margin
		time.Sleep(maxSleep)
		synctest.Wait()
		if _, n, _ := h.driver.Counts(); n != 0 || l.Err() != nil {
			t.Errorf("%d questions, %v", n, l.Err())
		}
		h.done(t)
	})
}

func TestInDoubtASilentStoreCostsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.driver.OnRenew(func(ctx context.Context, _ []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		l, ho := h.take(t, terms("k"))
		time.Sleep(100 * time.Millisecond)
		h.wall.Add(int64(time.Hour))
		_ = l.Err()
		time.Sleep(999 * time.Millisecond)
		synctest.Wait()
		if ho.seen().ended != nil {
			t.Fatal("no time to ask")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if !errors.Is(ho.seen().ended, dibsdriver.ErrLost) || ho.seen().endedAt != 1100*time.Millisecond {
			t.Errorf("ended at %s: %v", ho.seen().endedAt, ho.seen().ended)
		}
		h.done(t)
	})
}

func TestAnAnswerFromBeforeTheSleepSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		var asked atomic.Int32
		h.driver.OnRenew(func(ctx context.Context, l []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			if asked.Add(1) > 1 {
				return nil, dibsdriver.ErrUnavailable
			}
			a, err := h.store.Renew(ctx, l)
			h.wall.Add(int64(time.Hour)) // the machine sleeps with the answer on its way
			return a, err
		})
		start := time.Now()
		l, ho := h.take(t, terms("k"))
		sleepTo(start, 3*time.Second)
		if err := l.Err(); err == nil {
			t.Error("believed")
		}
		sleepTo(start, 5*time.Second)
		if !errors.Is(ho.seen().ended, dibsdriver.ErrLost) || ho.seen().endedAt != 4*time.Second {
			t.Errorf("ended at %s: %v", ho.seen().endedAt, ho.seen().ended)
		}
		h.done(t)
	})
}
