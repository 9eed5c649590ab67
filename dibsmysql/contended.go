package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
)

// Contended tells whether another process waits for a key that is ours; if so it is given the baton.
func (d *Driver) Contended(ctx context.Context, key string) (bool, error) {
	if err := d.enter(ctx); err != nil {
		return true, err
	}
	defer d.calls.Done()
	s, err := d.ensure(ctx)
	if err != nil || d.batons.refused.Load() {
		return true, err
	}
	name := d.batonName(s, key)
	if t, conn, owner := d.batons.lend(key); conn != nil {
		return d.swapTurn(ctx, key, name, t, conn, owner), nil
	}
	if others, had := d.swapClaim(ctx, key); had {
		return others, nil
	}
	var others bool
	err = d.send(ctx, request{doing: "ask for waiters", take: d.take, reads: true}, func(conn *sql.Conn) error {
		free, _, err := twoAnswers(ctx, conn, "SELECT "+nobodyElse(name)+", 0")
		others = free == 0
		return err
	})
	return others || err != nil, err
}

// lend takes the session of a turn out of it, so that nobody else uses it meanwhile, if the key is ours.
func (b *batons) lend(key string) (t *turn, conn *sql.Conn, owner string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t = b.turns[key]
	if t == nil || t.owner == "" || t.conn == nil {
		return nil, nil, ""
	}
	conn, t.conn, t.lent = t.conn, nil, true
	return t, conn, t.owner
}

// putBack returns the session to its turn, unless the key was released meanwhile: then nobody else gives the baton away.
func (b *batons) putBack(key string, t *turn, conn *sql.Conn, owner string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.lent = false
	if conn == nil || b.turns[key] != t || t.owner != owner || t.conn != nil {
		return false
	}
	t.conn = conn
	return true
}

// swapTurn lets go of the baton that a waiting session got, and takes it again, unless somebody else waits, who then has it.
func (d *Driver) swapTurn(ctx context.Context, key, name string, t *turn, conn *sql.Conn, owner string) (others bool) {
	_, state, err := twoAnswers(ctx, conn, swap(name))
	if err != nil || state&1 == 0 {
		d.batons.putBack(key, t, nil, owner)
		d.putWaiting(conn, err != nil)
		return true
	}
	others = state&2 == 0
	if !d.batons.putBack(key, t, conn, owner) {
		// Not the caller's context: its end would cost the connection.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
		defer cancel()
		others = d.giveAway(ctx, conn, name)
		d.batons.released(key, others)
	}
	return others
}

// swapClaim does the same with a baton that was claimed. had is false if there is none.
func (d *Driver) swapClaim(ctx context.Context, key string) (others, had bool) {
	b := &d.batons
	b.mu.Lock()
	c := b.claims.all[key]
	var on *sql.Conn
	if c != nil && c.conn != nil && !c.lent {
		on, c.lent = c.conn, true
	}
	b.mu.Unlock()
	if on == nil {
		return false, false
	}
	_, state, err := d.onClaim(ctx, on, 5*patience, swap(c.name))
	unsent := errors.Is(err, errSlotTaken) // and so it is ours still
	has := err == nil && state&1 != 0
	if !b.swapped(c, has || unsent) {
		return state&2 == 0 || !has, true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	return d.unclaim(ctx, on, c.name) || unsent, true
}

// swapped notes whether the claim's baton is still ours, and tells whether it is to be given away, as the key was released meanwhile.
func (b *batons) swapped(c *claim, has bool) (over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.lent = false
	switch {
	case has:
		return c.over
	case !c.over:
		c.conn = nil
		b.claims.later(c, claimRetry)
	}
	return false
}
