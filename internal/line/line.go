// Package line keeps the waiters of each key in one process in order: first come, first served, and only the head of a
// line speaks to the store.
//
// A line has one goroutine while somebody waits in it. It makes the requests, so that a caller who gives up leaves nothing
// behind: the answer that it did not wait for goes to the next in line, or the lease is given back.
package line

import (
	"context"
	"sync"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/call"
	"github.com/dibs-go/dibs/internal/keeper"
	"github.com/dibs-go/dibs/internal/seen"
	"github.com/dibs-go/dibs/internal/settle"
)

// Terms are what a waiter wants the key under. A lease fits a waiter only if it was taken under the same terms.
type Terms struct {
	TTL, Margin, MinHold time.Duration
	Note                 string
}

// life is what the store is asked for.
func (t Terms) life() time.Duration { return max(t.TTL, t.MinHold) }

// window is how long after the start of a request its answer can be trusted.
func (t Terms) window() time.Duration { return t.TTL - t.Margin }

// Grant is an acquisition.
type Grant struct {
	Owner string
	Token int64
	// Started is when the request was made that acquired the lease, Life what the store granted from then on.
	Started time.Time
	Life    time.Duration
	// Lease is set if the grant was handed on by a section of this process: the keeper keeps it already, with no holder.
	Lease *keeper.Lease
}

// Lines are the lines of all keys. The fields are set before its first use.
type Lines struct {
	Driver  dibsdriver.Driver
	Limits  dibsdriver.Limits
	Group   *call.Group
	Settler *settle.Settler
	Seen    *seen.Tokens
	// Timeout is the limit of one request.
	Timeout time.Duration
	// Holder is how this process shows itself to others.
	Holder string
	// Grew is told how long a line is now that one more waits in it. Called outside of the lock; may be nil.
	Grew func(key string, waiters int)

	mu     sync.Mutex
	closed error
	lines  map[string]*line
}

// line is the line of one key. Its fields belong to the lock of Lines.
type line struct {
	all     *Lines
	key     string
	waiters []*waiter
	running bool
	kick    chan struct{}
	asked   int       // requests made so far
	askedAt time.Time // when the one under way was made; zero if there is none

	// held is the lease that this process has on the key, nil if none: while it stands, there is no use in asking the store.
	held *held

	// busy is the store's last answer if it was "busy"; heardAt is when the store last answered.
	busy    *dibsdriver.Record
	heardAt time.Time
	// failed is the error of the last request, nil after an answer.
	failed error
}

// held is a lease of this process.
type held struct {
	owner string
	token int64 // of the section that has it
	// lease is nil until the section has begun.
	lease  *keeper.Lease
	record dibsdriver.Record

	since     time.Time     // when it was acquired from the store
	took      time.Duration // the store, to grant it
	handed    int           // how often it was handed on
	handedAt  time.Time     // when the present section got it from another
	contended bool          // others were waiting for it
	askedAt   time.Time     // when the store was last asked whether others wait
	asking    bool          // it is being asked
}

func (h *held) left() time.Duration {
	if h.lease == nil {
		return 0
	}
	return h.lease.Remaining()
}

func (ls *Lines) line(key string) *line {
	l, ok := ls.lines[key]
	if !ok {
		if ls.lines == nil {
			ls.lines = make(map[string]*line)
		}
		l = &line{all: ls, key: key, kick: make(chan struct{}, 1)}
		ls.lines[key] = l
	}
	return l
}

// drop forgets the line if nothing is left of it.
func (l *line) drop() {
	if len(l.waiters) == 0 && l.held == nil && !l.running {
		delete(l.all.lines, l.key)
	}
}

func (l *line) wake() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// wakeIfEmpty lets the goroutine of a line in which nobody waits end at once.
func (l *line) wakeIfEmpty() {
	if len(l.waiters) == 0 {
		l.wake()
	}
}

// Held tells the line that the lease which was granted is in use, so that waiters behind it need not ask the store.
func (ls *Lines) Held(key, owner string, lease *keeper.Lease, record dibsdriver.Record) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l, ok := ls.lines[key]; ok && l.held != nil && l.held.owner == owner {
		l.held.lease, l.held.record = lease, record
	}
}

// Ended tells the line that the lease was given back, or can be trusted no more. It may be called more than once.
func (ls *Lines) Ended(key, owner string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, ok := ls.lines[key]
	if !ok || l.held == nil || l.held.owner != owner {
		return
	}
	l.held = nil
	l.wake()
	l.drop()
}

// Close ends all waiting, now and later, with err.
func (ls *Lines) Close(err error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.closed = err
	for _, l := range ls.lines {
		for _, w := range l.waiters {
			w.fail(err)
		}
		l.waiters = nil
		l.wake()
	}
}

// start starts the line if it is not running; with lead, the caller has to, with its own question. A new head is not made to wait out a pause that was
// another's.
func (l *line) start() (lead bool) {
	if l.running {
		if len(l.waiters) == 1 {
			l.wake()
		}
		return false
	}
	l.running = true
	if l.held == nil && len(l.waiters) == 1 {
		l.asks()
		return true
	}
	l.all.Group.Go(func(ctx context.Context) { l.run(ctx, new(round)) })
	return false
}
