package keeper

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

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
