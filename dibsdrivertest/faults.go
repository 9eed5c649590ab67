package dibsdrivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// When selects calls: n counts those of the rule's move since the rule was set, from 1.
type When func(n int, c *Call) bool

// Always selects every call.
func Always(int, *Call) bool { return true }

// Nth selects the n-th call.
func Nth(n int) When { return func(i int, _ *Call) bool { return i == n } }

// First selects the first n calls.
func First(n int) When { return func(i int, _ *Call) bool { return i <= n } }

// ForKey selects the calls about a key.
func ForKey(key string) When {
	return func(_ int, c *Call) bool { return slices.Contains(c.Keys, key) }
}

// Fault is what becomes of a call.
type Fault func(c *Call) error

// errInjected is the cause in the errors that this package makes up.
var errInjected = errors.New("injected fault")

func unavailable(cause error) error {
	return fmt.Errorf("%w: %w: %w", dibsdriver.ErrUnavailable, errInjected, cause)
}

var errAway = unavailable(errors.New("the store is away"))

var errAwayNotApplied = dibsdriver.NotApplied(errAway)

// FailBefore answers err at once, and the request never reaches the store. Mark err with dibsdriver.NotApplied if the
// driver is to know that.
func FailBefore(err error) Fault { return func(*Call) error { return err } }

// DropReply lets the request take effect and loses its answer: the call errs.
func DropReply() Fault {
	return func(c *Call) error {
		_ = c.Apply(context.WithoutCancel(c.Ctx))
		return unavailable(errors.New("the connection ended before the answer"))
	}
}

// HoleReply lets the request take effect, and its answer vanishes without a trace: the call ends with its context.
func HoleReply() Fault {
	return func(c *Call) error {
		_ = c.Apply(context.WithoutCancel(c.Ctx))
		return c.untilDone()
	}
}

// Hole loses the request: the call ends with its context.
func Hole() Fault { return (*Call).untilDone }

func (c *Call) untilDone() error {
	select {
	case <-c.Ctx.Done():
		return unavailable(c.Ctx.Err())
	case <-c.rule.off:
		return errAway
	}
}

// Hang loses the request, and the call does not even end with its context, but when the rule is off.
func Hang() Fault {
	return func(c *Call) error {
		<-c.rule.off
		return errAway
	}
}

// Stall keeps the request until the rule is off, whatever becomes of its context, and then lets it take effect.
func Stall() Fault {
	return func(c *Call) error {
		<-c.rule.off
		return c.Apply(context.WithoutCancel(c.Ctx))
	}
}

// Delay makes the way to the store and the way back slow; a call whose context ends meanwhile ends too, its request under way or applied.
func Delay(to, back time.Duration) Fault {
	return func(c *Call) error {
		sleep(to)
		if c.Ctx.Err() != nil {
			return unavailable(c.Ctx.Err())
		}
		err := c.Apply(c.Ctx)
		sleep(back)
		return err
	}
}

// Late lets the request take effect after d, when the caller has long gone: the call ends with its context. The rule's
// end does not stop a request on its way.
func Late(d time.Duration) Fault {
	return func(c *Call) error {
		c.d.late.Go(func() {
			sleep(d)
			_ = c.Apply(context.WithoutCancel(c.Ctx))
		})
		return c.untilDone()
	}
}

// Answer changes the answer that the leases of a key get to a renewal.
func Answer(key string, a dibsdriver.RenewAnswer) Fault {
	return func(c *Call) error {
		err := c.Apply(c.Ctx)
		for i, k := range c.Keys {
			if k == key && err == nil {
				c.Answers[i] = a
			}
		}
		return err
	}
}

func sleep(d time.Duration) {
	if d > 0 {
		time.Sleep(d)
	}
}
