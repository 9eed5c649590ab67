package dibsdrivertest

import (
	"fmt"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

var tokenCases = []testcase{
	{name: "S4/tokens_over_release", run: tokensRelease},
	{name: "S4/tokens_over_expiry", run: tokensExpiry},
	{name: "S4/tokens_over_break", run: tokensBreak},
	{name: "S4/tokens_over_row_removal", run: tokensRemoval, needs: removesRow},
	{name: "S4/tokens_over_clock_set_back", run: tokensClock, needs: stepsClock},
	{name: "S4/tokens_over_clock_set_forward_and_back", run: tokensForward, needs: stepsClock},
	{name: "S4/tokens_over_clock_set_back_and_row_removed", run: tokensForgot, needs: stepsClock | removesRow},
	{name: "S4/store_that_forgets_is_refused", run: tokensFallen},
}

// tokens are the tokens of one key in the order of its acquisitions.
type tokens struct {
	*env
	last int64
}

func (t *tokens) next(token int64) {
	t.Helper()
	if token <= t.last {
		t.Errorf("token %d after %d", token, t.last)
	}
	if token <= 0 || token > dibsdriver.MaxToken {
		t.Errorf("token %d is not below 2^53", token)
	}
	t.last = token
}

func tokensRelease(e *env) {
	lockers := []*dibs.Locker{e.locker(), e.locker()}
	t := tokens{env: e}
	for i := range 30 {
		t.next(e.free(lockers[i%2], "k", e.slack))
	}
	t.next(e.free(e.locker(), "k", e.slack)) // a new process
}

func tokensExpiry(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	b := e.locker()
	t := tokens{env: e}
	for range 2 {
		lock, _ := e.hold(a, "k")
		t.next(lock.Token())
		faults.OnAll(FailBefore(errAway))
		next, _ := e.hold(b, "k")
		t.next(next.Token())
		faults.Heal()
		e.is(lock.Release(), dibs.ErrLost, "release")
		e.ok(next.Release(), "release")
	}
}

func tokensBreak(e *env) {
	a, b := e.locker(), e.locker()
	t := tokens{env: e}
	for range 5 {
		lock, _ := e.hold(a, "k")
		t.next(lock.Token())
		_, err := b.BreakNow(e.Context(), "k", lock.Token())
		e.ok(err, "break")
		t.next(e.free(b, "k", e.slack))
		e.is(lock.Release(), dibs.ErrLost, "release")
	}
}

func tokensRemoval(e *env) {
	a, b := e.locker(), e.locker()
	t := tokens{env: e}
	for range 3 {
		t.next(e.free(a, "k", e.slack))
		e.store.(RowRemover).RemoveRow(e, "k")
		t.next(e.free(b, "k", e.slack))
	}
	lock, _ := e.hold(a, "k")
	t.next(lock.Token())
	e.store.(RowRemover).RemoveRow(e, "k")
	t.next(e.free(e.locker(), "k", e.slack))
	e.is(lock.Release(), dibs.ErrLost, "release")
}

// tokensClock relies on what the store remembers: the other process has not seen the key.
func tokensClock(e *env) {
	t := tokens{env: e}
	t.next(e.free(e.locker(), "k", e.slack))
	for range 3 {
		t.last += e.store.(ClockStepper).StepClock(e, -5*time.Second)
		t.next(e.free(e.locker(), "k", e.slack))
	}
	// A lease that was taken before the clock was set back ends that much later, not never; whoever is alive renews and goes on.
	a := e.locker()
	lock, work := e.hold(a, "k")
	t.next(lock.Token())
	t.last += e.store.(ClockStepper).StepClock(e, -5*time.Second)
	e.throughout(2*e.ttl, "held", func() bool { return lock.Err() == nil && work.Err() == nil })
	e.ok(lock.Release(), "release")
	t.next(e.free(e.locker(), "k", e.slack))
}

func tokensForward(e *env) {
	t := tokens{env: e}
	a := e.locker()
	t.next(e.free(a, "k", e.slack))
	t.last += e.store.(ClockStepper).StepClock(e, time.Hour)
	t.next(e.free(a, "k", e.slack))
	t.last += e.store.(ClockStepper).StepClock(e, -time.Hour)
	t.next(e.free(e.locker(), "k", e.slack))
	t.next(e.free(a, "k", e.slack))
}

// tokensForgot: the store has forgotten and its clock is behind. Only the process itself knows.
func tokensForgot(e *env) {
	a := e.locker()
	t := tokens{env: e}
	t.next(e.free(a, "k", e.slack))
	e.store.(RowRemover).RemoveRow(e, "k")
	e.store.(ClockStepper).StepClock(e, -5*time.Second)
	t.next(e.free(a, "k", e.slack))
}

// tokensFallen: a token that does not rise would fence off the wrong side. Better no lock than that one.
func tokensFallen(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	token := e.free(a, "k", e.slack)
	for i, fallen := range []int64{token, token - 1, 0, -1, 1 << 53} {
		faults.On(OpAcquire, Always, func(c *Call) error {
			err := c.Apply(c.Ctx)
			c.Acquired.Token = fallen
			return err
		})
		_, _, err := a.Acquire(e.Context(), "k")
		e.unknown(err, fmt.Sprint("acquire with bad token ", i))
		faults.Heal()
		e.until(time.Second+e.slack, "given back", func() bool { return !e.store.Peek(e, "k").Held })
	}
	e.free(a, "k", e.slack)
}
