package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"
)

// A holder that took its key while it was free has no baton. Once its hold has lasted for a moment it claims the baton, so that those who come wait in
// the server until it is done. All claims of a process are made on the keeper's connection, which it has anyway, none of them waiting for anybody.
const (
	claimAfter   = 20 * time.Millisecond
	claimRetry   = 640 * time.Millisecond // at the longest, when a waiter had the baton at the time
	claimBatch   = 64
	claimMost    = 256 // waiters for the keys beyond poll
	claimTimeout = 2 * time.Second
)

// claims belong to the lock of batons.
type claims struct {
	all     map[string]*claim // by key
	running bool              // the goroutine, or it begins soon
	begins  *time.Timer       // then
	wakesAt time.Time         // when the goroutine looks again by itself
	kick    chan struct{}
	late    []lateClaim // to be given away when the keeper's connection is free
}

// lateClaim is a baton on the session that has it.
type lateClaim struct {
	on   *sql.Conn
	name string
}

type claim struct {
	owner, name string
	due         time.Time
	tries       int
	asking      bool      // the server is being asked
	conn        *sql.Conn // on which we have the baton
	lent        bool      // Contended lets go of it for a moment, and gives it away if the key is released meanwhile
	over        bool      // the key was released
}

// add claims the baton of a key soon. It is called with the lock held.
func (c *claims) add(d *Driver, s *server, key, owner string) {
	if len(c.all) >= claimMost {
		return
	}
	if c.all == nil {
		c.all = make(map[string]*claim)
	}
	cl := &claim{owner: owner, name: d.batonName(s, key)}
	if old := c.all[key]; old != nil { // of a lease of ours that has lapsed, under work that goes on
		old.over = true
		if !old.lent {
			cl.conn, old.conn = old.conn, nil // a session could take it twice, and then would have to give it away twice
		}
	}
	c.all[key] = cl
	c.later(cl, claimAfter)
	if !c.running {
		c.kick = make(chan struct{}, 1)
		c.running, c.wakesAt = true, cl.due
		// Not before there is something to do: most holds are over by then, and to start a goroutine costs as much as a tenth of a round trip.
		c.begins = time.AfterFunc(claimAfter, func() {
			if !d.inBackground(d.claim) {
				d.batons.mu.Lock()
				defer d.batons.mu.Unlock()
				c.running = false
			}
		})
	}
}

// later lets the goroutine make a claim after a while. It is called with the lock held.
func (c *claims) later(cl *claim, after time.Duration) {
	cl.due = time.Now().Add(after)
	if !c.running || !cl.due.Before(c.wakesAt) {
		return
	}
	c.wakesAt = cl.due
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// take removes the claim of a key that was released, and returns it, if there is one. It is called with the lock held.
func (c *claims) take(key, owner string) *claim {
	cl := c.all[key]
	if cl == nil || cl.owner != owner {
		return nil
	}
	delete(c.all, key)
	cl.over = true
	return cl
}

// claim is the goroutine that makes the claims; it ends when there are none.
func (d *Driver) claim(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due, next, ok := d.dueClaims()
		if !ok {
			return
		}
		if len(due) > 0 {
			d.makeClaims(ctx, due)
			continue
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-d.batons.claims.kick:
		case <-ctx.Done():
			return
		}
	}
}

// dueClaims returns what is to be claimed now, or how long to wait; not ok when the goroutine ends.
func (d *Driver) dueClaims() (due []*claim, next time.Duration, ok bool) {
	b := &d.batons
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.claims.all) == 0 || b.refused.Load() {
		b.claims.running = false
		return nil, 0, false
	}
	now := time.Now()
	next = time.Hour
	for _, c := range b.claims.all {
		switch {
		case c.conn != nil:
		case c.due.After(now):
			next = min(next, c.due.Sub(now))
		case len(due) < claimBatch:
			c.asking = true
			due = append(due, c)
		}
	}
	b.claims.wakesAt = now.Add(next)
	return due, next, true
}

func (d *Driver) makeClaims(ctx context.Context, due []*claim) {
	conn := d.keeper.idle()
	got := make([]bool, len(due))
	if conn != nil {
		ctx, cancel := context.WithTimeout(ctx, claimTimeout)
		err := getLocks(ctx, conn, due, got)
		cancel()
		if refusesBatons(err) {
			d.batons.refused.Store(true)
		}
		d.keeper.put(conn, err != nil) // some of them may be ours
		if err != nil {
			clear(got)
		}
	}
	var late []*claim // released meanwhile
	b := &d.batons
	b.mu.Lock()
	for i, c := range due {
		c.asking = false
		if got[i] {
			c.conn = conn
			if c.over {
				late = append(late, c)
			}
			continue
		}
		c.due = time.Now().Add(min(claimAfter<<min(c.tries, 10), claimRetry))
		c.tries++
	}
	b.mu.Unlock()
	for _, c := range late {
		d.unclaim(ctx, conn, c.name)
	}
}

func getLocks(ctx context.Context, conn *sql.Conn, due []*claim, got []bool) error {
	answers, into := make([]sql.NullInt64, len(due)), make([]any, len(due))
	var q strings.Builder
	for i, c := range due {
		into[i] = &answers[i]
		q.WriteString([]string{"SELECT ", ", "}[min(i, 1)])
		q.WriteString("GET_LOCK(" + c.name + ", 0)")
	}
	if err := conn.QueryRowContext(ctx, q.String()).Scan(into...); err != nil {
		return err
	}
	for i, a := range answers {
		got[i] = a.Int64 == 1
	}
	return nil
}

// unclaim gives a claimed baton away, on the session that has it. It tells whether somebody else has it now.
func (d *Driver) unclaim(ctx context.Context, on *sql.Conn, name string) (others bool) {
	_, free, err := d.onClaim(ctx, on, 5*patience, "SELECT RELEASE_LOCK("+name+"), "+nobodyElse(name))
	if errors.Is(err, errSlotTaken) { // by a renewal that hangs, or there are many to give away and the server is far
		d.unclaimLater(lateClaim{on, name})
	}
	return err == nil && free == 0
}

// unclaimLater gives a baton away in the background, together with the others that wait for the keeper's connection: renewals need it, too.
func (d *Driver) unclaimLater(l lateClaim) {
	c := &d.batons.claims
	d.batons.mu.Lock()
	c.late = append(c.late, l)
	first := len(c.late) == 1
	d.batons.mu.Unlock()
	if !first {
		return
	}
	d.inBackground(func(ctx context.Context) {
		var conn *sql.Conn
		select {
		case conn = <-d.keeper.slot:
		case <-ctx.Done(): // the session ends with the driver
			return
		}
		d.batons.mu.Lock()
		late := c.late
		c.late = nil
		d.batons.mu.Unlock()
		err := giveLocks(ctx, conn, late)
		d.keeper.put(conn, err != nil)
	})
}

// giveLocks gives away those batons that conn has.
func giveLocks(ctx context.Context, conn *sql.Conn, late []lateClaim) error {
	var q strings.Builder
	for _, l := range late {
		if l.on == conn {
			q.WriteString([]string{"DO ", ", "}[min(q.Len(), 1)])
			q.WriteString("RELEASE_LOCK(" + l.name + ")")
		}
	}
	if conn == nil || q.Len() == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	_, err := conn.ExecContext(ctx, q.String())
	return err
}

var errSlotTaken, errOtherSession = errors.New("the keeper's connection is in use"), errors.New("the baton's session has ended")

// onClaim runs a statement on the session that has the baton. If that is not the keeper's any more, the baton has gone with it.
func (d *Driver) onClaim(ctx context.Context, on *sql.Conn, wait time.Duration, statement string) (a, b int64, err error) {
	t := time.NewTimer(wait)
	defer t.Stop()
	var conn *sql.Conn
	select {
	case conn = <-d.keeper.slot:
	case <-t.C:
		return 0, 0, errSlotTaken
	case <-ctx.Done():
		return 0, 0, errSlotTaken
	}
	if conn == nil || conn != on {
		d.keeper.put(conn, false)
		return 0, 0, errOtherSession
	}
	a, b, err = twoAnswers(ctx, conn, statement)
	d.keeper.put(conn, err != nil)
	return a, b, err
}

// refusesBatons tells whether the server knows no named locks, or does not allow them.
func refusesBatons(err error) bool {
	switch code(err) {
	case 0, 1205, 1213, 1317, 1969, 3024, 3058, 1053, 1927, 4031, // ended, or timed out
		1037, 1038, 1040, 1041, 1047, 1203, 1226: // out of memory, too many of something, cut off from the cluster: it passes
		return false
	}
	return true
}
