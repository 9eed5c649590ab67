package keeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/backoff"
	"github.com/dibs-go/dibs/internal/call"
)

// batch collects the leases that are due, and with them those that would be soon: leases that were taken one after
// another come together this way, and stay together.
func (k *Keeper) batch(now time.Time) []*Lease {
	var due []*Lease
	for _, l := range k.queue {
		soon := now.Add(l.terms.TTL / 12)
		if l.renewAt.IsZero() || l.renewAt.After(soon) || l.expired(now) != nil {
			continue
		}
		due = append(due, l)
		if len(due) == k.Batch {
			break
		}
	}
	return due
}

// send asks the store to renew the leases. If it has not answered in time it is asked again, beside this request; an answer
// that comes late still counts from when its request was made.
func (k *Keeper) send(leases []*Lease, now time.Time) *request {
	r := &request{leases: leases, done: make(chan struct{})}
	renewals := make([]dibsdriver.Renewal, len(leases))
	// An answer that comes when none of these leases can be trusted any more is of no use, and waiting for it would take the place, and the
	// connection, of a request that can be answered.
	var window time.Duration
	for i, l := range leases {
		renewals[i] = dibsdriver.Renewal{Key: l.terms.Key, Owner: l.terms.Owner, TTL: l.terms.TTL}
		l.renewAt = now.Add(l.terms.patience())
		window = max(window, l.terms.TTL-l.terms.Margin)
	}
	k.queue.fix()
	k.calls++
	r.skew = k.clocks.skew(now, k.Wall)
	c := call.Start(k.Group, min(k.Timeout, window), func(ctx context.Context) ([]dibsdriver.RenewAnswer, error) {
		return k.Driver.Renew(ctx, renewals)
	})
	k.Group.Go(func(context.Context) {
		<-c.Done()
		k.settle(r, c)
		close(r.done)
	})
	return r
}

// request is a renewal under way.
type request struct {
	leases  []*Lease
	skew    time.Duration
	answers []dibsdriver.RenewAnswer
	err     error
	done    chan struct{} // answers and err may be read when it is closed
}

// settle takes the store's answers.
func (k *Keeper) settle(r *request, c *call.Call[[]dibsdriver.RenewAnswer]) {
	r.answers, r.err = c.Result()
	if r.err == nil && len(r.answers) != len(r.leases) {
		r.err = errors.New("dibs: the driver did not answer for each lease")
	}
	if r.err != nil {
		answer := dibsdriver.Unknown
		if errors.Is(r.err, dibsdriver.ErrRefused) {
			answer = dibsdriver.Refused
		}
		r.answers = make([]dibsdriver.RenewAnswer, len(r.leases))
		for i := range r.answers {
			r.answers[i] = answer
		}
	}

	k.mu.Lock()
	now := time.Now()
	var tell []func()
	for i, l := range r.leases {
		if l.ended != nil {
			continue
		}
		if f := k.take(l, r.answers[i], r, c.Started, now); f != nil {
			tell = append(tell, f)
		}
	}
	if k.calls >= maxCalls {
		for _, l := range k.queue {
			if l.renewAt.IsZero() {
				l.renewAt = now
			}
		}
	}
	k.calls--
	k.queue.fix()
	k.wake()
	k.mu.Unlock()
	notify(tell)
}

// take is one lease's answer. It returns what is to be told.
func (k *Keeper) take(l *Lease, answer dibsdriver.RenewAnswer, r *request, start, now time.Time) func() {
	// A window that has ended stays ended, even if its timer was late and the store still has the lease: its holder may have been told.
	if cause := l.expired(now); cause != nil {
		k.end(l, cause)
		return func() { l.holder.LeaseEnded(cause) }
	}
	switch answer {
	case dibsdriver.Renewed:
		if k.clocks.skew(now, k.Wall)-r.skew > l.terms.Margin {
			return nil // the machine slept since the question: the answer says nothing about now
		}
		l.confirm(start, l.terms.TTL, r.skew)
		if cause := l.expired(now); cause != nil { // answered too late to be of use
			k.end(l, cause)
			return func() { l.holder.LeaseEnded(cause) }
		}
		return l.holder.LeaseRenewed
	case dibsdriver.Lost:
		cause := lostCause(l)
		k.end(l, cause)
		return func() { l.holder.LeaseEnded(cause) }
	case dibsdriver.Refused:
		l.renewAt = now.Add(retry(&l.terms))
		if k.Refused == nil {
			return nil
		}
		return func() { k.Refused(l.terms.Key, r.err) }
	default:
		l.renewAt = now.Add(retry(&l.terms))
		return nil
	}
}

// retry is the pause after a renewal that nobody can say anything about.
func retry(t *Terms) time.Duration {
	return backoff.Jitter(min(t.TTL/10, time.Second))
}

// Verify asks the store now, and renews if the lease still stands. The context bounds the wait for the answer, not the request.
func (l *Lease) Verify(ctx context.Context) error {
	k := l.keeper
	k.mu.Lock()
	if l.ended != nil {
		err := l.err()
		k.mu.Unlock()
		return err
	}
	r := k.send([]*Lease{l}, time.Now())
	k.wake()
	k.mu.Unlock()
	limit := time.NewTimer(k.Timeout + dibsdriver.Grace)
	defer limit.Stop()
	select {
	case <-r.done:
	case <-ctx.Done():
		return ctx.Err()
	case <-limit.C:
		return fmt.Errorf("%w: no answer within %s", dibsdriver.ErrUnavailable, k.Timeout)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := l.err(); err != nil {
		return err
	}
	if r.answers[0] != dibsdriver.Renewed {
		if r.err != nil {
			return r.err
		}
		return dibsdriver.ErrUnavailable
	}
	return l.doubt() // the machine slept since the question
}
