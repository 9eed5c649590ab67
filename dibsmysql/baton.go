package dibsmysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// The baton of a key is a named lock of the server (GET_LOCK). Who waits for the key waits for its baton, inside the server, first come first served;
// who has it is next, or has the key. It is given away after the key was released, so that a waiter is woken at once and asks
// nothing in between. Correctness never rests on it: it is lost with its connection, it is local to a server, some servers refuse it. Then
// waiting is polling.

// batons are what this process has and knows of them.
type batons struct {
	mu      sync.Mutex
	turns   map[string]*turn
	waiting int // connections
	claims  claims
	gone    map[string]time.Time // owners that were released before we heard that they had the key
	refused atomic.Bool          // by the server
}

// turn is this process's place among the others that want a key.
type turn struct {
	waiter string    // whose it is until the key is ours
	owner  string    // whose it is then
	conn   *sql.Conn // the session that got the baton by waiting; nil if none did
	lent   bool      // Contended has the session, and puts it back if the key is still ours then
	woken  bool      // it has the baton and has not asked for the key yet

	// othersFirst is until when a waiter of ours, without the baton, does not ask for the key at all: others were waiting when we had it.
	othersFirst time.Time
	// stuck is the session that kept the baton from us for as long as we were ready to wait, 0 if none did.
	stuck int64
}

// dropTurn gives the baton of a lease away that is not ours any more, though its work may not have noticed yet.
func (d *Driver) dropTurn(s *server, key, owner string) {
	d.inBackground(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, claimTimeout)
		defer cancel()
		d.pass(ctx, s, dibsdriver.ReleaseParams{Key: key, Owner: owner}, false)
	})
}

// turnLimit is how long the next in line may take to make use of its turn. With the time of one question it is below dibsdriver.QueueGrace.
const turnLimit = dibsdriver.QueueGrace - 500*time.Millisecond

// name is the baton's, at most 64 characters, and none of which it would matter whether they are capitals.
func (d *Driver) batonName(s *server, key string) string {
	sum := sha256.Sum256([]byte(s.database + "\x00" + d.prefix + "\x00" + key))
	return "'dibs:" + hex.EncodeToString(sum[:20]) + "'"
}

// wish is another named lock, which one of those has that can only look at the row, for want of a connection to wait on: they are not seen otherwise.
func wish(baton string) string { return strings.TrimSuffix(baton, "'") + "w'" }

// nobodyElse is, as SQL, 1 if nobody has the baton, and nobody looks at the row.
func nobodyElse(baton string) string {
	return "IS_FREE_LOCK(" + baton + ") * IS_FREE_LOCK(" + wish(baton) + ")"
}

// swap lets go of the baton and takes it again, unless somebody waits for it, who then has it. Of its second answer, 1 stands for having it again,
// and 2 for that nobody looks at the row.
func swap(baton string) string {
	return "SELECT RELEASE_LOCK(" + baton + "), GET_LOCK(" + baton + ", 0) + 2 * IS_FREE_LOCK(" + wish(baton) + ")"
}

func (b *batons) turn(key string) *turn {
	t := b.turns[key]
	if t == nil {
		if len(b.turns) >= busyMost {
			b.forget()
		}
		if b.turns == nil {
			b.turns = make(map[string]*turn)
		}
		t = &turn{}
		b.turns[key] = t
	}
	return t
}

// forget drops what is only known, not held.
func (b *batons) forget() {
	for key, t := range b.turns {
		if t.conn == nil && t.owner == "" {
			delete(b.turns, key)
		}
	}
}

// barred tells whether a waiter has to let others go first.
func (b *batons) barred(p dibsdriver.AcquireParams) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.turns[p.Key]
	return p.Waiter != "" && t != nil && t.conn == nil && time.Now().Before(t.othersFirst)
}

// wake tells whether the baton has just come to us, so that the key should be free.
func (b *batons) wake(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.turns[key]
	if t == nil || !t.woken {
		return false
	}
	t.woken = false
	return true
}

// acquired notes that the key is ours.
func (d *Driver) acquired(s *server, p dibsdriver.AcquireParams) {
	b := &d.batons
	if b.refused.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, gone := b.gone[p.Owner]; gone { // it was taken back meanwhile
		return
	}
	if t := b.turns[p.Key]; t != nil {
		stuck := t.stuck
		t.owner, t.stuck, t.othersFirst = p.Owner, 0, time.Time{}
		if t.conn != nil {
			return
		}
		if stuck != 0 {
			d.inBackground(func(ctx context.Context) { d.unstick(ctx, s, p.Key, stuck) })
		}
	}
	b.claims.add(d, s, p.Key, p.Owner)
}

// pass gives the baton to the next, after the key was released. known is what the release has told of others.
func (d *Driver) pass(ctx context.Context, s *server, p dibsdriver.ReleaseParams, known bool) {
	d.passing(ctx, s, p)(known)
}

// passing gives the baton to the next, beside the release of the key. The function it returns waits until that is done; known is what the release
// has told of others, if there was no baton.
func (d *Driver) passing(ctx context.Context, s *server, p dibsdriver.ReleaseParams) (passed func(known bool)) {
	b := &d.batons
	b.mu.Lock()
	t := b.turns[p.Key]
	var conn *sql.Conn
	if t != nil && t.owner == p.Owner {
		conn, t.conn, t.owner = t.conn, nil, ""
	}
	claim := b.claims.take(p.Key, p.Owner)
	var claimed *sql.Conn
	maybeWe := t != nil && t.lent // who has the baton
	switch {
	case claim == nil && conn == nil && !b.refused.Load():
		b.forgetOwner(p.Owner)
	case claim == nil:
	case claim.asking || claim.lent:
		maybeWe = true
	default:
		claimed = claim.conn
	}
	b.mu.Unlock()
	if conn == nil && claimed == nil {
		return func(known bool) { b.released(p.Key, known && !maybeWe) }
	}
	done := make(chan struct{})
	d.calls.Go(func() {
		defer close(done)
		// Not the caller's context: its end would cost the keeper its connection.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
		defer cancel()
		others := false
		if claimed != nil {
			others = d.unclaim(ctx, claimed, d.batonName(s, p.Key))
		}
		if conn != nil {
			others = d.giveAway(ctx, conn, d.batonName(s, p.Key))
		}
		b.released(p.Key, others && !maybeWe)
	})
	return func(bool) {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}

// forgetOwner lets an answer that comes late, of an acquisition that is taken back already, leave nothing behind. It is called with the lock held.
func (b *batons) forgetOwner(owner string) {
	if len(b.gone) >= busyMost {
		maps.DeleteFunc(b.gone, func(_ string, at time.Time) bool { return time.Since(at) > time.Minute })
	}
	if b.gone == nil || len(b.gone) >= busyMost {
		b.gone = make(map[string]time.Time)
	}
	b.gone[owner] = time.Now()
}

// released notes whether others wait for a key that was ours.
func (b *batons) released(key string, others bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch t := b.turns[key]; {
	case others:
		b.turn(key).othersFirst = time.Now().Add(turnLimit)
	case t != nil && t.conn == nil && t.owner == "":
		delete(b.turns, key)
	}
}

// giveAway releases the baton that a waiting session got, and gives the connection back to the pool. It tells whether somebody
// else has the baton now.
func (d *Driver) giveAway(ctx context.Context, conn *sql.Conn, name string) (others bool) {
	_, free, err := twoAnswers(ctx, conn, "SELECT RELEASE_LOCK("+name+"), "+nobodyElse(name))
	d.putWaiting(conn, err != nil)
	return err == nil && free == 0
}

func (d *Driver) putWaiting(conn *sql.Conn, broken bool) {
	if broken {
		drop(conn)
	} else {
		_ = conn.Close()
	}
	d.batons.mu.Lock()
	defer d.batons.mu.Unlock()
	d.batons.waiting--
}

func twoAnswers(ctx context.Context, conn *sql.Conn, statement string) (a, b int64, err error) {
	var first, second sql.NullInt64
	err = conn.QueryRowContext(ctx, statement).Scan(&first, &second)
	return first.Int64, second.Int64, err
}

// unstick ends the session that keeps the baton although it made no use of its turn: a process that is frozen, or a machine that is gone. Its own
// next statement finds the connection closed, and it waits anew. A user may end what is its own.
func (d *Driver) unstick(ctx context.Context, s *server, key string, session int64) {
	if session == 0 || !pauseFor(ctx, 200*time.Millisecond) { // it may have been on its way
		return
	}
	name := d.batonName(s, key)
	_ = d.send(ctx, request{doing: "end a stuck turn", take: d.take, reads: true}, func(conn *sql.Conn) error {
		now, _, err := twoAnswers(ctx, conn, "SELECT IS_USED_LOCK("+name+"), 0")
		if err != nil || now != session {
			return err
		}
		_, err = conn.ExecContext(ctx, "KILL "+number(session))
		return err
	})
}

// closeBatons gives up all that is held or waited for. No call is under way.
func (d *Driver) closeBatons() {
	b := &d.batons
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.turns {
		if t.conn != nil {
			drop(t.conn)
		}
	}
	b.turns = nil
	if b.claims.begins != nil {
		b.claims.begins.Stop()
	}
}

func pauseFor(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
