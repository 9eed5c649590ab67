package keeper

import (
	"context"
	"errors"
	"fmt"
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

// TestB05_ASleepDuringTheAcquire: the store granted the lease, and the machine slept with the answer on its way, whether it is the first lease or not.
func TestB05_ASleepDuringTheAcquire(t *testing.T) {
	for _, others := range []int{0, 1} {
		for name, lost := range map[string]bool{"another has the key": true, "the lease stands": false} {
			t.Run(fmt.Sprintf("%s, %d other leases", name, others), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newHouse()
					for i := range others {
						h.take(t, terms(fmt.Sprint("other", i)))
					}
					k, start := terms("k"), time.Now()
					if r, err := h.store.Acquire(t.Context(), dibsdriver.AcquireParams{Key: k.Key, Owner: k.Owner, TTL: k.TTL}); err != nil || !r.Acquired {
						t.Fatal(r, err)
					}
					time.Sleep(time.Millisecond)
					h.wall.Add(int64(time.Hour))
					if lost {
						h.store.Expire("k")
						if r, err := h.store.Acquire(t.Context(), dibsdriver.AcquireParams{Key: "k", Owner: "B", TTL: time.Hour}); err != nil || !r.Acquired {
							t.Fatal(r, err)
						}
					}
					ho := &holder{start: start}
					l, ok := h.Add(k, ho, start, k.TTL)
					if !ok {
						t.Fatal("not taken: a clock that was only set costs nothing")
					}
					if err := l.Err(); !errors.Is(err, dibsdriver.ErrUnavailable) || l.Remaining() != 0 {
						t.Errorf("believed before the store was asked: %v, %s", err, l.Remaining())
					}
					synctest.Wait()
					if got := ho.seen(); lost && (!errors.Is(got.ended, dibsdriver.ErrLost) || got.endedAt != time.Millisecond) {
						t.Errorf("ended at %s: %v", got.endedAt, got.ended)
					} else if !lost && (l.Err() != nil || len(got.renewed) != 1) {
						t.Errorf("%v, renewed at %v", l.Err(), got.renewed)
					}
					h.done(t)
				})
			})
		}
	}
}

// TestB05_ASleepThatWasNoticedBeforeTheLeaseCame: the store is asked about the lease all the same, though nobody asks the lease.
func TestB05_ASleepThatWasNoticedBeforeTheLeaseCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.take(t, terms("other"))
		k, start := terms("k"), time.Now()
		if r, err := h.store.Acquire(t.Context(), dibsdriver.AcquireParams{Key: k.Key, Owner: k.Owner, TTL: k.TTL}); err != nil || !r.Acquired {
			t.Fatal(r, err)
		}
		time.Sleep(time.Millisecond)
		h.wall.Add(int64(time.Hour))
		h.store.Expire("k")
		sleepTo(start, maxSleep)
		if _, n, _ := h.driver.Counts(); n != 1 {
			t.Fatalf("%d questions about the other", n)
		}
		ho := &holder{start: start}
		if _, ok := h.Add(k, ho, start, k.TTL); !ok {
			t.Fatal("not taken")
		}
		synctest.Wait()
		if got := ho.seen(); !errors.Is(got.ended, dibsdriver.ErrLost) || got.endedAt != maxSleep {
			t.Errorf("ended at %s: %v", got.endedAt, got.ended)
		}
		h.done(t)
	})
}

// TestAStepOfTheMarginDuringTheAcquire is what the margin is for.
func TestAStepOfTheMarginDuringTheAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		k, start := terms("k"), time.Now()
		h.store.Acquire(t.Context(), dibsdriver.AcquireParams{Key: k.Key, Owner: k.Owner, TTL: k.TTL})
		time.Sleep(time.Millisecond)
		h.wall.Add(int64(k.Margin))
		l, ok := h.Add(k, &holder{start: start}, start, k.TTL)
		if !ok || l.Err() != nil {
			t.Error(ok, l.Err())
		}
		h.wall.Add(1) // from where the clocks were when it was asked for
		if err := l.Err(); !errors.Is(err, dibsdriver.ErrUnavailable) {
			t.Errorf("more than the margin: %v", err)
		}
		h.done(t)
	})
}

// TestB05_ASleepDuringVerify: its answer says nothing about now.
func TestB05_ASleepDuringVerify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		l, ho := h.take(t, terms("k"))
		h.driver.OnRenew(func(ctx context.Context, leases []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			h.driver.OnRenew(nil)
			a, err := h.store.Renew(ctx, leases)
			time.Sleep(time.Millisecond)
			h.wall.Add(int64(time.Hour))
			h.store.Expire("k")
			return a, err
		})
		if err := l.Verify(t.Context()); !errors.Is(err, dibsdriver.ErrUnavailable) {
			t.Errorf("verified: %v", err)
		}
		synctest.Wait()
		if got := ho.seen(); !errors.Is(got.ended, dibsdriver.ErrLost) || got.endedAt != time.Millisecond {
			t.Errorf("ended at %s: %v", got.endedAt, got.ended)
		}
		if err := l.Verify(t.Context()); !errors.Is(err, dibsdriver.ErrLost) {
			t.Error(err)
		}
		h.done(t)
	})
}
