package keeper

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// keys are those of the requests so far, each request's in the order of the alphabet.
func (h *house) keys() [][]string {
	var all [][]string
	for _, leases := range h.driver.Renewed() {
		var keys []string
		for _, l := range leases {
			keys = append(keys, l.Key)
		}
		slices.Sort(keys)
		all = append(all, keys)
	}
	return all
}

func equal(a, b [][]string) bool { return slices.EqualFunc(a, b, slices.Equal) }

// TestABatchHasWhatIsDueOrSoonWillBe, which is within a twelfth of the TTL, and nothing else.
func TestABatchHasWhatIsDueOrSoonWillBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		start := time.Now()
		h.take(t, terms("due"))
		h.take(t, terms("due too"))
		sleepTo(start, 750*time.Millisecond)
		h.take(t, terms("soon"))
		sleepTo(start, 750*time.Millisecond+1)
		h.take(t, terms("too far"))
		sleepTo(start, 3*time.Second)
		if got := h.keys(); !equal(got, [][]string{{"due", "due too", "soon"}}) {
			t.Errorf("asked for %q", got)
		}
		sleepTo(start, 4*time.Second)
		if got := h.keys(); !equal(got, [][]string{{"due", "due too", "soon"}, {"too far"}}) {
			t.Errorf("asked for %q", got)
		}
		h.done(t)
	})
}

// TestALeaseThatIsNotDueIsPassedOver, wherever it stands, and those behind it are not.
func TestALeaseThatIsNotDueIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		start := time.Now()
		h.take(t, terms("due"))
		h.take(t, Terms{Key: "long", Owner: "o", TTL: time.Hour, Margin: time.Second})
		h.take(t, terms("due too"))
		sleepTo(start, 3*time.Second)
		if got := h.keys(); !equal(got, [][]string{{"due", "due too"}}) {
			t.Errorf("asked for %q", got)
		}
		h.done(t)
	})
}

// TestAnAlarmAsksNothing of the store, and the leases behind the one that it is about are looked at in time.
func TestAnAlarmAsksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		start := time.Now()
		long := Terms{Key: "long", Owner: "o", TTL: time.Hour, Margin: time.Second, HoldAlarm: time.Second}
		_, first := h.take(t, long)
		short := Terms{Key: "short", Owner: "o", TTL: time.Hour, Margin: time.Second, MaxHold: 1500 * time.Millisecond}
		_, second := h.take(t, short)
		sleepTo(start, 1900*time.Millisecond)
		if got := first.seen().alarms; !slices.Equal(got, []time.Duration{time.Second}) {
			t.Errorf("alarms at %v", got)
		}
		if got := second.seen(); !errors.Is(got.ended, ErrMaxHold) || got.endedAt != 1500*time.Millisecond {
			t.Errorf("ended at %s: %v", got.endedAt, got.ended)
		}
		if got := h.keys(); len(got) != 0 {
			t.Errorf("asked for %q", got)
		}
		h.done(t)
	})
}

// TestAPlaceThatFallsFreeIsTakenAtOnce by a lease that had to wait for one.
func TestAPlaceThatFallsFreeIsTakenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.Batch = 1
		answer := make(chan struct{})
		h.driver.OnRenew(func(ctx context.Context, l []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			<-answer
			return h.store.Renew(ctx, l)
		})
		start := time.Now()
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			h.take(t, terms(key))
		}
		sleepTo(start, 4*time.Second)
		if n := len(h.keys()); n != maxCalls {
			t.Fatalf("%d requests under way", n)
		}
		answer <- struct{}{} // one of them
		synctest.Wait()
		if got := h.keys(); len(got) != maxCalls+1 {
			t.Errorf("asked for %q", got)
		}
		close(answer)
		h.done(t)
	})
}

// TestARetryComesWithinATenthOfTheTTL, so that a short lease has time for some.
func TestARetryComesWithinATenthOfTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		var at []time.Duration
		start := time.Now()
		h.driver.OnRenew(func(context.Context, []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			at = append(at, time.Since(start))
			return nil, dibsdriver.ErrUnavailable
		})
		h.take(t, Terms{Key: "k", Owner: "o", TTL: 600 * time.Millisecond, Margin: 60 * time.Millisecond})
		sleepTo(start, time.Second)
		if len(at) < 6 || at[0] != 200*time.Millisecond {
			t.Fatalf("asked at %v", at)
		}
		for i := 1; i < len(at); i++ {
			if d := at[i] - at[i-1]; d < 30*time.Millisecond || d > 60*time.Millisecond {
				t.Errorf("a retry after %s", d)
			}
		}
		h.done(t)
	})
}

func TestVerifyTellsWhyItCannotTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		l, _ := h.take(t, terms("k"))
		h.driver.OnRenew(func(_ context.Context, l []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			return make([]dibsdriver.RenewAnswer, len(l)), nil // unknown
		})
		if err := l.Verify(t.Context()); !errors.Is(err, dibsdriver.ErrUnavailable) {
			t.Errorf("the store does not know, and Verify says %v", err)
		}
		flood := errors.New("flood")
		h.driver.OnRenew(func(context.Context, []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) { return nil, flood })
		if err := l.Verify(t.Context()); !errors.Is(err, flood) {
			t.Errorf("the store fails, and Verify says %v", err)
		}
		never := make(chan struct{})
		h.driver.OnRenew(func(context.Context, []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
			<-never
			return nil, flood
		})
		start := time.Now()
		if err := l.Verify(t.Context()); !errors.Is(err, dibsdriver.ErrUnavailable) || time.Since(start) != h.Timeout+dibsdriver.Grace {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		close(never)
		h.done(t)
	})
}

// asking is a holder that asks after another lease when it is told of the end of its own.
type asking struct {
	holder
	other *Lease
	heard error
}

func (a *asking) LeaseEnded(error) { a.heard = a.other.Err() }

// TestWhatEndsTogetherHasEndedWhenTheFirstIsTold, so that nobody who is told can hold up the end of another's.
func TestWhatEndsTogetherHasEndedWhenTheFirstIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		short := terms("first")
		short.MaxHold = time.Second
		start := time.Now()
		first, _ := h.take(t, short)
		short.Key = "second"
		second, _ := h.take(t, short)
		a, b := &asking{other: second}, &asking{other: first}
		h.mu.Lock()
		first.holder, second.holder = a, b
		h.mu.Unlock()
		sleepTo(start, 2*time.Second)
		if !errors.Is(a.heard, ErrMaxHold) || !errors.Is(b.heard, ErrMaxHold) {
			t.Errorf("told of its end, each heard of the other's lease: %v, %v", a.heard, b.heard)
		}
		h.done(t)
	})
}
