package dibssqlite

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// A waiter keeps its place for waiterLife after it last asked: longer than QueueAsk, so that a busy machine does not cost the place, and short
// enough that with its poll a dead one delays the others by less than QueueGrace. A poll writes only when that is refreshAfter ago.
const (
	waiterLife   = 3000 // ms
	refreshAfter = 500  // ms
	// A time ahead of the clock by more was written before the clock was set back, and says nothing.
	aheadOfClock = 1000 // ms
)

// line is the queue of one key, without its dead.
type line struct {
	first  string // waiter
	mine   bool   // we have a place
	others int
	dead   bool // there are dead ones
}

func alive(now, seen int64) bool {
	return seen > now-waiterLife && seen <= now+aheadOfClock
}

// othersFirst tells that a newcomer, or whoever is not the first, has to wait even if the key is free.
func (l *line) othersFirst() bool {
	return l.others > 0 && !l.mineFirst()
}

func (l *line) mineFirst() bool { return l.mine && l.first == "" }

func (d *Driver) line(s *session, key, waiter string, now int64) (l line, err error) {
	err = s.each(func(rows *sql.Rows) error {
		var w string
		var seen int64
		if err := rows.Scan(&w, &seen); err != nil {
			return err
		}
		switch {
		case !alive(now, seen):
			l.dead = true
		case waiter != "" && w == waiter:
			l.mine = true
		default:
			if l.first == "" && !l.mine {
				l.first = w
			}
			l.others++
		}
		return nil
	}, d.q.line, []byte(key))
	return l, err
}

// fresh tells that our waiter asked so lately that asking again needs no word to the others.
func (k *keyState) fresh() bool {
	return k.seen > k.now-refreshAfter && k.seen <= k.now+aheadOfClock
}

// keepPlace ends a busy answer's transaction.
func (d *Driver) keepPlace(s *session, p dibsdriver.AcquireParams, k *keyState, l *line) error {
	if p.Waiter == "" || l.mine && k.fresh() {
		return errNoChange
	}
	// The dead first: our own row may be among them, and its place is lost.
	if err := d.dropDead(s, p.Key, k, l); err != nil {
		return err
	}
	return s.exec(d.q.ask, []byte(p.Key), p.Waiter, k.now)
}

func (d *Driver) dropDead(s *session, key string, k *keyState, l *line) error {
	if !l.dead {
		return nil
	}
	return s.exec(d.q.dropWaiters, []byte(key), k.now-waiterLife+1, k.now+aheadOfClock)
}

// places remembers who was told in this process that a key is busy, waiters and single attempts (waiter ""): the next time they look before
// they try. Forgetting one costs a little time and nothing else.
type places struct {
	mu    sync.Mutex
	known map[dibsdriver.WaitParams]holding
}

// holding is somebody's lease, as others see it.
type holding struct {
	token int64
	since time.Time // when it was seen first
}

const maxPlaces = 10_000

func (p *places) before(a dibsdriver.AcquireParams) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.known[dibsdriver.WaitParams{Key: a.Key, Waiter: a.Waiter}]
	return ok
}

func (p *places) note(a dibsdriver.AcquireParams, r dibsdriver.AcquireResult) {
	id := dibsdriver.WaitParams{Key: a.Key, Waiter: a.Waiter}
	if r.Acquired {
		p.forget(id)
	} else {
		p.held(id, r.Holder.Token)
	}
}

// held notes who has the key, and tells since when that one was seen to.
func (p *places) held(id dibsdriver.WaitParams, token int64) (since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, ok := p.known[id]
	if ok && h.token == token {
		return h.since
	}
	if p.known == nil || len(p.known) >= maxPlaces {
		p.known = make(map[dibsdriver.WaitParams]holding)
	}
	h = holding{token, time.Now()}
	p.known[id] = h
	return h.since
}

func (p *places) forget(id dibsdriver.WaitParams) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, id)
}

// Leave gives a waiter's place up.
func (d *Driver) Leave(ctx context.Context, p dibsdriver.WaitParams) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.calls.Done()
	d.asked.forget(p)
	if err := d.ensure(ctx); err != nil {
		return dibsdriver.NotApplied(d.fail("open", err))
	}
	return d.write(ctx, "leave the queue", d.writer, func(s *session) error {
		return s.exec(d.q.leave, []byte(p.Key), p.Waiter)
	})
}

// Contended tells whether another waiter stands in the file's line for the key. It writes nothing.
func (d *Driver) Contended(ctx context.Context, key string) (others bool, err error) {
	if err := d.enter(ctx); err != nil {
		return false, err
	}
	defer d.calls.Done()
	err = d.read(ctx, "look at the queue", func(s *session) error {
		now, err := s.now()
		if err != nil {
			return err
		}
		l, err := d.line(s, key, "", now)
		others = l.others > 0
		return err
	})
	return others, err
}
