package line

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/call"
	"github.com/dibs-go/dibs/internal/owner"
	"github.com/dibs-go/dibs/internal/settle"
)

// attempt is one question to the store, under way.
type attempt struct {
	terms Terms
	queue string // our place in the store's queue, if the question was for it
	p     dibsdriver.AcquireParams
	call  *call.Call[dibsdriver.AcquireResult]
	limit time.Duration // for the answer
}

// ask asks the store for the head of the line.
func (l *line) ask(t Terms, queue string) *attempt {
	ls := l.all
	a := &attempt{terms: t, queue: queue, limit: min(ls.Timeout, t.window())}
	a.p = dibsdriver.AcquireParams{
		Key: l.key, Owner: owner.New(), TTL: t.life(), Floor: ls.Seen.Floor(l.key),
		Holder: ls.Holder, Note: t.Note, Waiter: queue,
	}
	a.call = call.Start(ls.Group, a.limit, func(ctx context.Context) (dibsdriver.AcquireResult, error) {
		return ls.Driver.Acquire(ctx, a.p)
	})
	return a
}

// conclude makes of the answer a grant, or none if somebody has the key, and the store's answer; or an error, and then, if the request is still under way,
// when it will have ended.
func (l *line) conclude(a *attempt, answered bool) (*Grant, *dibsdriver.AcquireResult, <-chan struct{}, error) {
	ls, t, p, c := l.all, a.terms, a.p, a.call
	ls.mu.Lock()
	l.askedAt = time.Time{}
	ls.mu.Unlock()
	if !answered {
		ls.Settler.TakeBack(l.key, p.Owner, p.TTL, c)
		return nil, nil, c.Done(), fmt.Errorf("%w: no answer within %s; the request is taken back", dibsdriver.ErrUnavailable, a.limit)
	}
	res, err := c.Result()
	switch {
	case err != nil:
		if dibsdriver.FateOf(err) != dibsdriver.FateNotApplied {
			ls.Settler.TakeBack(l.key, p.Owner, p.TTL, c)
		}
		if !errors.Is(err, dibsdriver.ErrUnavailable) {
			err = fmt.Errorf("%w: %w", dibsdriver.ErrUnavailable, err)
		}
		return nil, nil, nil, err
	case !res.Acquired:
		return nil, &res, nil, nil
	}
	g := Grant{Owner: p.Owner, Token: res.Token, Started: c.Started, Life: p.TTL}
	if res.TTL > 0 {
		g.Life = res.TTL
	}
	if time.Since(g.Started) >= t.window() {
		l.giveBack(g)
		return nil, nil, nil, fmt.Errorf("%w: the answer took longer than the lease can be trusted; it was given back", dibsdriver.ErrUnavailable)
	}
	if res.Token <= p.Floor || res.Token > dibsdriver.MaxToken {
		// A store that forgot (restored from a backup, say): a token that does not rise would fence off the wrong side.
		l.giveBack(g)
		return nil, nil, nil, fmt.Errorf("%w: %s gave the token %d, but this process has seen %d of this key",
			dibsdriver.ErrUnavailable, ls.Limits.Store, res.Token, p.Floor)
	}
	ls.Seen.Note(l.key, res.Token)
	return &g, &res, nil, nil
}

// answered waits for the answer: at most for its limit, and no longer than somebody wants it. An answer may have been lost with
// the key taken, and then the sooner it is taken back the better.
func (l *line) answered(a *attempt) bool {
	t := time.NewTimer(a.limit - time.Since(a.call.Started))
	defer t.Stop()
	for {
		select {
		case <-a.call.Done():
			return true
		case <-t.C:
			return false
		case <-l.kick:
			defer l.wake() // it was meant for whoever waits next
			if l.empty() {
				return false
			}
		}
	}
}

func (l *line) empty() bool {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	return len(l.waiters) == 0
}

// giveBack releases a lease that nobody wants, in the background.
func (l *line) giveBack(g Grant) {
	if g.Lease != nil {
		g.Lease.Stop()
	}
	l.all.Settler.InBackground(settle.Release{Key: l.key, Owner: g.Owner, Life: g.Life})
}

// giveNext hands a lease to the first in line, if it was taken under that waiter's terms. It is called with the lock held.
func (l *line) giveNext(g Grant, t Terms) bool {
	if len(l.waiters) == 0 || l.waiters[0].terms != t {
		return false
	}
	w := l.waiters[0]
	l.waiters = slices.Delete(l.waiters, 0, 1)
	if l.held == nil {
		l.held = &held{owner: g.Owner, token: g.Token, since: g.Started}
	}
	w.grant = &g
	close(w.ready)
	return true
}

// deliver hands a lease to the head of the line; the one it was asked for may have left since.
func (l *line) deliver(g Grant, t Terms, contended bool) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	l.heard(nil)
	if !l.giveNext(g, t) {
		l.giveBack(g)
		return
	}
	l.held.contended, l.held.askedAt, l.held.took = contended, g.Started, time.Since(g.Started)
}

// refuse takes the answer "busy": a single attempt is over with it.
func (l *line) refuse(r dibsdriver.Record) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	l.heard(&r)
	l.waiters = slices.DeleteFunc(l.waiters, func(w *waiter) bool {
		over := w.once && w.came < l.asked
		if over {
			w.fail(l.busyError())
		}
		return over
	})
	l.wakeIfEmpty()
}

// heard notes that the store has answered.
func (l *line) heard(busy *dibsdriver.Record) {
	l.busy, l.heardAt, l.failed = busy, time.Now(), nil
	for _, w := range l.waiters {
		w.contacted = true
	}
}

// outage takes an error: it is the answer of all whom the store has not answered before, and of everybody if waiting does not
// help. The others wait on.
func (l *line) outage(err error) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	l.failed = err
	hopeless := errors.Is(err, dibsdriver.ErrRefused) || errors.Is(err, dibsdriver.ErrClosed)
	l.waiters = slices.DeleteFunc(l.waiters, func(w *waiter) bool {
		over := w.came < l.asked && (hopeless || !w.contacted || w.once)
		if over {
			w.fail(err)
		}
		return over
	})
	l.wakeIfEmpty()
}
