package line

import (
	"context"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/call"
)

// turn is how long a process may hand a lease on among its own while others wait, and how old its knowledge may be that nobody does. It is
// longer than what a release and an acquisition cost, many times, and short to a person.
const turnTime = 50 * time.Millisecond

// askLimit bounds how long a release waits to hear whether others wait; without an answer it takes it that they do. A store that is far away has as much
// more as it took longer to grant the lease, but never more than half of what a request may take: the release has the rest.
const (
	askLimit = 100 * time.Millisecond
	askSlack = 4
)

// HandOn passes the lease of a section that is over to the first in line, if it fits, without a word to the store: the key is not free in between, and
// the next section has a token of its own. end is called before the next section begins. False: the lease has to be released.
//
// Each process gets its turn: the lease is handed on fewer than dibsdriver.TokenStep times, which is how far apart the tokens of two acquisitions are, and
// for no longer than turnTime unless the store says that nobody else waits.
func (ls *Lines) HandOn(key, owner string, t Terms, end func()) bool {
	if t.MinHold > 0 {
		return false
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, h := ls.fitting(key, owner, t)
	if h == nil || h.handed >= dibsdriver.TokenStep-1 {
		return false
	}
	now := time.Now()
	if now.Sub(h.since) >= h.took+turnTime {
		if l, h = ls.turnGoesOn(l, now, t); h == nil {
			return false
		}
	}
	h.handedAt = time.Now()
	if !h.lease.Detach(t.window() / 2) {
		return false
	}
	end()
	h.handed++
	h.token++
	// The grant is the next one's before the lock is free, so that no other can come between.
	return l.giveNext(Grant{Owner: owner, Token: h.token, Started: h.since, Life: t.life(), Lease: h.lease}, t)
}

// turnGoesOn tells whether nobody else waits, as far as is known of the last moment. After a short section the store is asked while the next one
// runs, after a long one before it begins. It is called with the lock held, which it gives up in between.
func (ls *Lines) turnGoesOn(l *line, now time.Time, t Terms) (*line, *held) {
	h := l.held
	if !h.contended && !h.asking && now.Sub(h.askedAt) >= turnTime {
		h.asking, h.askedAt = true, now
		ask := func() {
			contended := ls.contended(l.key, h.took)
			ls.mu.Lock()
			defer ls.mu.Unlock()
			h.asking = false
			h.contended = h.contended || contended
		}
		if now.Sub(h.handedAt) < turnTime {
			ls.Group.Go(func(context.Context) { ask() })
		} else {
			ls.mu.Unlock()
			ask()
			ls.mu.Lock()
		}
	}
	if h.contended {
		return nil, nil
	}
	return ls.fitting(l.key, h.owner, t)
}

// fitting returns the line and its lease if that may be handed to the first in line. It is called with the lock held.
func (ls *Lines) fitting(key, owner string, t Terms) (*line, *held) {
	l, ok := ls.lines[key]
	if !ok || l.held == nil || l.held.owner != owner || l.held.lease == nil || len(l.waiters) == 0 || l.waiters[0].terms != t {
		return nil, nil
	}
	return l, l.held
}

// contended asks the store whether other processes wait for the key. took is what the store needed for its last answer.
func (ls *Lines) contended(key string, took time.Duration) bool {
	d, ok := ls.Driver.(dibsdriver.Contender)
	if !ok {
		return true
	}
	limit := min(max(askLimit, askSlack*took), ls.Timeout/2)
	c := call.Start(ls.Group, limit, func(ctx context.Context) (bool, error) { return d.Contended(ctx, key) })
	others, err, answered := c.Wait(limit)
	return !answered || err != nil || others
}
