package dibs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/keeper"
	"github.com/dibs-go/dibs/internal/line"
	"github.com/dibs-go/dibs/internal/outbox"
	"github.com/dibs-go/dibs/internal/settle"
)

// Acquire waits for the key and takes it. It returns the lock, which must be released, and the work's context, which
// ends with ctx or with the lock, whichever is first; [context.Cause] says why ([ErrLost], [ErrMaxHold], [ErrClosed], [ErrReleased]).
// Renewal and release do not depend on ctx.
//
// Errors: [ErrBusy], as a *[BusyError], when [MaxWait] is over; the context's error, joined with the last that was known, when ctx is
// over; [ErrUnavailable] when the store cannot be reached (at the first contact; after one good answer the wait goes on through an outage) or
// the outcome is unknown, in which case whatever was taken is given back, and [ErrReadOnly] besides when the store takes no writes; [ErrHeld] when ctx
// holds the key already; [ErrInvalidKey]; [ErrClosed]; [ErrUnsupported] for a [TTL] or [MinHold] that the store cannot keep. Any other option that is out of its
// bounds, or does not fit the others, is an error that says which and why, before the store is asked, and matches none of these names: it is a fault of the program.
func (l *Locker) Acquire(ctx context.Context, key string, opts ...Option) (*Lock, context.Context, error) {
	return l.acquire(ctx, key, l.terms(opts))
}

// TryAcquire is [Locker.Acquire] with one attempt: a busy key is [ErrBusy] at once, as is one that others of this process wait for.
func (l *Locker) TryAcquire(ctx context.Context, key string, opts ...Option) (*Lock, context.Context, error) {
	o := l.terms(opts)
	o.maxWait, o.waits = 0, true
	return l.acquire(ctx, key, o)
}

func (l *Locker) acquire(ctx context.Context, key string, o options) (*Lock, context.Context, error) {
	full, err := l.cfg.storeKey(key)
	if err != nil {
		return nil, nil, err
	}
	if err := o.check(&l.cfg, l.limits); err != nil {
		return nil, nil, err
	}
	if ctx.Err() != nil {
		return nil, nil, contextError(ctx)
	}
	has := l.heldBy(ctx, full)
	if has != nil && !o.reenter {
		return nil, nil, fmt.Errorf("%w: %q, with token %d; waiting for it would be a deadlock (see dibs.Reenter)", ErrHeld, key, has.token)
	}
	if l.closed() {
		return nil, nil, ErrClosed
	}
	if has != nil {
		if lock, work := has.enterAgain(ctx, key); lock != nil {
			return lock, work, nil
		} // else its last release came in between
	}
	l.countRequest(full)
	terms := l.lineTerms(o)
	wait := line.Forever
	if o.waits {
		wait = o.maxWait
	}
	began := time.Now()
	var s *section
	for s == nil {
		grant, err := l.join(ctx, full, terms, wait, began)
		if err != nil {
			err = l.refusal(key, err)
			if wait != 0 {
				l.tell(outbox.Frequent, l.cfg.Events.Waited, Event{Key: key, For: time.Since(began), Err: err})
			}
			return nil, nil, err
		}
		ev := Event{Key: key, Token: grant.Token, For: time.Since(began)}
		s, err = l.begin(ctx, key, full, o, terms, grant, func() bool {
			if wait != 0 {
				l.tell(outbox.Frequent, l.cfg.Events.Waited, ev)
			}
			return l.tell(outbox.Usual, l.cfg.Events.Acquired, ev)
		})
		if err != nil {
			return nil, nil, err
		}
	}
	s.tellAcquired()
	lock := &Lock{section: s, key: key}
	return lock, context.WithValue(s.ctx, heldKey{}, &held{lock: lock, outer: heldIn(ctx)}), nil
}

// join waits in line for a lease that a section can begin with.
func (l *Locker) join(ctx context.Context, full string, terms line.Terms, wait time.Duration, began time.Time) (line.Grant, error) {
	for {
		left := wait
		if wait > 0 {
			left = max(time.Nanosecond, wait-time.Since(began)) // 0 would be a single attempt
		}
		grant, err := l.lines.Join(ctx, full, terms, left)
		if err != nil || grant.Lease != nil || !l.keeper.Slept(grant.Started, terms.Margin) {
			return grant, err
		}
		// Somebody else may have the key by now, and no work begins in doubt of that.
		l.settler.InBackground(settle.Release{Key: full, Owner: grant.Owner, Life: grant.Life + l.cfg.RequestTimeout})
		l.lines.Ended(full, grant.Owner)
		if wait == 0 {
			return grant, fmt.Errorf("%w: the machine seems to have slept before %s had answered; the lease was given back", ErrUnavailable, l.limits.Store)
		}
	}
}

func (l *Locker) lineTerms(o options) line.Terms {
	return line.Terms{TTL: o.ttl, Margin: l.cfg.margin(o.ttl), MinHold: o.minHold, Note: o.note}
}

// begin starts the critical section of an acquired lease. It returns nil if the lease was handed on to us and has ended on the way.
func (l *Locker) begin(ctx context.Context, key, full string, o options, terms line.Terms, g line.Grant, acquired func() bool) (*section, error) {
	s := &section{
		engine: l.engine, key: key, full: full, owner: g.Owner, token: g.Token, began: time.Now(), terms: terms, count: 1, life: g.Life, acquired: acquired,
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.ended.Add(1)
	if !l.enter(s) {
		if g.Lease != nil {
			g.Lease.Stop()
		}
		s.giveBack()
		s.stop(ErrClosed)
		return nil, ErrClosed
	}
	alarm := max(0, l.cfg.HoldAlarm)
	if s.lease = g.Lease; s.lease != nil {
		if !s.lease.Attach(s, o.maxHold, alarm) {
			l.exit(s)
			s.giveBack()
			s.stop(ErrLost)
			return nil, nil
		}
	} else {
		kept := keeper.Terms{Key: full, Owner: g.Owner, TTL: terms.TTL, Margin: terms.Margin, MaxHold: o.maxHold, HoldAlarm: alarm}
		lease, ok := l.keeper.Add(kept, s, g.Started, g.Life)
		if !ok { // this process was held up between the answer and now
			l.exit(s)
			s.giveBack()
			s.stop(ErrLost)
			return nil, fmt.Errorf("%w: the answer of %s came too late to be trusted; the lease was given back", ErrUnavailable, l.limits.Store)
		}
		s.lease = lease
	}
	l.lines.Held(full, g.Owner, s.lease, dibsdriver.Record{
		Key: full, Holder: l.cfg.Name, Note: o.note, Token: g.Token, Since: s.began.UTC(),
	})
	return s, nil
}

// refusal makes the public error of what a line answered.
func (l *Locker) refusal(key string, err error) error {
	busy, ok := errors.AsType[*line.BusyError](err)
	if !ok {
		return l.about("acquiring", key, err)
	}
	public := &BusyError{Key: key, Left: busy.Left}
	if busy.Holder.Token != 0 {
		public.Holder = l.info(busy.Holder)
	}
	if err == error(busy) {
		return public
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return public
	}
	var errs []error // the context's error, then what was known
	for _, e := range joined.Unwrap() {
		if e == error(busy) {
			e = public
		}
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

func contextError(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, err) {
		return errors.Join(err, cause)
	}
	return err
}

func (e *engine) silent() error {
	return fmt.Errorf("%w: %s did not answer within %s", ErrUnavailable, e.limits.Store, e.cfg.RequestTimeout)
}

func (e *engine) alarm(msg string, s *section, args ...any) {
	e.log(outbox.Grave, slog.LevelError, msg, append([]any{"key", s.key, "token", s.token, "store", e.limits.Store}, args...)...)
}
