package keeper

import (
	"fmt"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// Holder is told what becomes of a lease. Its methods are called outside of the keeper's lock, by the keeper's own goroutines: they
// must return at once.
type Holder interface {
	// LeaseEnded is called once, unless Stop came first: the lease can be trusted no more.
	LeaseEnded(cause error)
	// LeaseRenewed is called after each renewal.
	LeaseRenewed()
	// HoldAlarm is called when the hold has lasted as long as its alarm, and at each doubling.
	HoldAlarm(held time.Duration)
}

// Terms are what a lease is taken and kept under.
type Terms struct {
	Key, Owner string
	// TTL is what each renewal asks for; Margin is how much earlier than the store we stop to believe.
	TTL, Margin time.Duration
	// MaxHold and HoldAlarm are 0 for none.
	MaxHold, HoldAlarm time.Duration
}

// Lease is a lease that the keeper keeps. All its fields belong to the keeper's lock.
type Lease struct {
	terms  Terms
	holder Holder
	keeper *Keeper

	ended error // nil while the lease is kept; errStopped after Stop

	since      time.Time // when the hold began
	trustUntil time.Time // the end of the trust window
	skew       time.Duration
	doubtUntil time.Time // set after a gap, until the store has answered
	renewAt    time.Time
	maxAt      time.Time
	alarmAt    time.Time

	index int // in the keeper's queue
}

// interval is the time between renewals: two may fail before the trust window ends.
func (t *Terms) interval() time.Duration { return t.TTL / 3 }

// patience is how long an answer may take before the question is asked anew, beside the one under way.
func (t *Terms) patience() time.Duration { return t.TTL / 4 }

// doubtLimit is how long the store may take to confirm a lease that a gap has put in doubt.
func (t *Terms) doubtLimit() time.Duration { return max(t.Margin, time.Second) }

// confirm records that a request made at start was granted for life.
func (l *Lease) confirm(start time.Time, life, skew time.Duration) {
	margin := l.terms.Margin
	if life > l.terms.TTL { // for a min hold; and clocks drift apart for longer
		margin = max(margin, life/1000)
	}
	if until := start.Add(life - margin); until.After(l.trustUntil) {
		// Never earlier: the store does not shorten a lease either.
		l.trustUntil = until
	}
	l.skew = skew
	l.doubtUntil = time.Time{}
	l.renewAt = start.Add(l.terms.interval())
}

// distrust puts the lease in doubt: it is asked for at once, and is lost if the store does not answer soon.
func (l *Lease) distrust(now time.Time) {
	if l.doubtUntil.IsZero() {
		l.doubtUntil = now.Add(l.terms.doubtLimit())
		l.renewAt = now
	}
}

// doubt says that the lease is in doubt, or returns nil.
func (l *Lease) doubt() error {
	if l.doubtUntil.IsZero() {
		return nil
	}
	return fmt.Errorf("%w: the machine seems to have slept; the lease of %q is being confirmed", dibsdriver.ErrUnavailable, l.terms.Key)
}

// next is when the keeper has to look at the lease again.
func (l *Lease) next() time.Time {
	at := l.trustUntil
	for _, t := range []time.Time{l.doubtUntil, l.renewAt, l.maxAt, l.alarmAt} {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	return at
}

// expired says why the lease can be trusted no more, or returns nil.
func (l *Lease) expired(now time.Time) error {
	switch {
	case !now.Before(l.trustUntil):
		return fmt.Errorf("%w: no renewal of %q succeeded within its trust window (TTL %s less the margin of %s)",
			dibsdriver.ErrLost, l.terms.Key, l.terms.TTL, l.terms.Margin)
	case !l.doubtUntil.IsZero() && !now.Before(l.doubtUntil):
		return fmt.Errorf("%w: the machine seems to have slept, and the store did not confirm the lease of %q within %s",
			dibsdriver.ErrLost, l.terms.Key, l.terms.doubtLimit())
	}
	return nil
}

func lostCause(l *Lease) error {
	return fmt.Errorf("%w: the store says that the lease of %q is not ours any more (somebody broke it, it lapsed, or its row was removed)",
		dibsdriver.ErrLost, l.terms.Key)
}
