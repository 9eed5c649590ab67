package dibsmysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

var (
	_ dibsdriver.Waker     = (*Driver)(nil)
	_ dibsdriver.Leaver    = (*Driver)(nil)
	_ dibsdriver.Contender = (*Driver)(nil)
)

const (
	// A hold that is over soon is not worth a turn: a waiter looks at the row a few times first. After that the holder has the baton; see claims.
	firstLooks = 4
	firstPause = 5 * time.Millisecond
	// Who is next looks more often: nobody else does.
	nextPause = 500 * time.Microsecond
	// leastSlice is the shortest wait for the baton: MySQL counts in seconds.
	leastSlice = time.Second
)

// Wait returns when the key may be free: at once when a holder that is done passes the baton on, else by looking at the row now and then, which
// locks nothing.
func (d *Driver) Wait(ctx context.Context, p dibsdriver.WaitParams) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.calls.Done()
	s, err := d.ensure(ctx)
	if err != nil {
		return err
	}
	w := &waiting{d: d, s: s, p: p}
	has, barred, looked := w.stand()
	if has {
		return w.next(ctx)
	}
	if barred {
		if err := w.giveWay(ctx); err != nil {
			return err
		}
		if has, err = w.block(ctx, leastSlice); has || err != nil && err != errNotYet {
			return err
		}
		w.unbar()
	}
	looks := firstLooks
	switch {
	case barred:
		looks = 1 // after a turn that nobody made use of, the key is free now
	case looked:
		looks = 0
	}
	if free, err := w.lookFor(ctx, looks); free || err != nil {
		return err
	}
	if has, err = w.block(ctx, turnLimit); has || err != nil {
		return err
	}
	return w.poll(ctx)
}

// poll looks at the row now and then. One of those that do has the wish, which lets the others know.
func (w *waiting) poll(ctx context.Context) error {
	name := wish(w.d.batonName(w.s, w.p.Key))
	var on *sql.Conn // the keeper's, which has the wish; nil if ours has not
	defer func() {
		if on == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
		defer cancel()
		if _, _, err := w.d.onClaim(ctx, on, claimTimeout, "SELECT RELEASE_LOCK("+name+"), 0"); errors.Is(err, errSlotTaken) {
			w.d.unclaimLater(lateClaim{on, name})
		}
	}()
	for !w.d.batons.refused.Load() && on == nil {
		if conn := w.d.keeper.idle(); conn != nil {
			got, _, err := twoAnswers(ctx, conn, "SELECT GET_LOCK("+name+", 0), 0")
			if err == nil && got == 1 {
				on = conn
			}
			w.d.keeper.put(conn, err != nil && code(err) == 0)
		}
		if free, err := w.lookFor(ctx, 1); free || err != nil {
			return err
		}
	}
	for {
		if free, err := w.lookFor(ctx, 1); free || err != nil {
			return err
		}
	}
}

// giveWay lets one that only looks at the row have its turn, which takes it longer than to be woken.
func (w *waiting) giveWay(ctx context.Context) error {
	name := wish(w.d.batonName(w.s, w.p.Key))
	for end := time.Now().Add(4 * pollMax); time.Now().Before(end); {
		var free int64
		err := w.d.send(ctx, request{doing: "ask for waiters", take: w.d.takeSpare, reads: true}, func(conn *sql.Conn) (err error) {
			free, _, err = twoAnswers(ctx, conn, "SELECT IS_FREE_LOCK("+name+"), 0")
			return err
		})
		if err != nil || free == 1 {
			return err
		}
		if !pauseFor(ctx, firstPause) {
			return ctx.Err()
		}
	}
	return nil
}

// next waits for the row with the baton in hand: the holder that gave it away because we wait is about to release the row. Nobody else does.
func (w *waiting) next(ctx context.Context) error {
	for began := time.Now(); ; {
		r, err := w.d.look(ctx, "look whether it is free", w.p.Key)
		if err != nil || !r.held() {
			return err
		}
		d := min(max(time.Since(began)/8, nextPause), pollMax)
		if !pauseFor(ctx, d/2+rand.N(d/2)) {
			return ctx.Err()
		}
	}
}

// errNotYet ends a wait whose time is over.
var errNotYet = errors.New("dibs: mysql: not yet")

func (w *waiting) unbar() {
	b := &w.d.batons
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn(w.p.Key).othersFirst = time.Time{}
}

// waiting is one wait.
type waiting struct {
	d     *Driver
	s     *server
	p     dibsdriver.WaitParams
	token int64 // of the holder
	since time.Time
}

// stand tells where we stand: next in line, or behind others by our own doing; and whether this waiter has looked at the row long enough.
func (w *waiting) stand() (has, barred, looked bool) {
	b := &w.d.batons
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.turn(w.p.Key)
	looked = t.waiter == w.p.Waiter
	t.waiter = w.p.Waiter
	return t.conn != nil && t.owner == "", time.Now().Before(t.othersFirst), looked
}

// lookFor looks at the row, after a pause, up to so many times.
func (w *waiting) lookFor(ctx context.Context, times int) (free bool, err error) {
	for i := range times {
		if !pauseFor(ctx, w.pause()*time.Duration(i+1)) {
			return false, ctx.Err()
		}
		r, err := w.d.look(ctx, "look whether it is free", w.p.Key)
		if err != nil || !r.held() {
			return err == nil, err
		}
		if r.token != w.token {
			w.token, w.since = r.token, time.Now()
		}
	}
	return false, nil
}

// pause is longer the longer the holder has had the key, and never in step with others'.
func (w *waiting) pause() time.Duration {
	d := firstPause
	if !w.since.IsZero() {
		d = min(max(d, time.Since(w.since)/8), pollMax)
	}
	return d/2 + rand.N(d/2)
}

// block waits for the baton. It returns nil and false if that cannot be had here, and errNotYet if others have it all the time.
func (w *waiting) block(ctx context.Context, slice time.Duration) (has bool, err error) {
	if end, bounded := ctx.Deadline(); bounded {
		slice = min(slice, time.Until(end))
	}
	if slice < leastSlice || w.d.batons.refused.Load() {
		return false, nil
	}
	conn, got, user, err := w.ask(ctx, int64(slice/time.Second))
	switch {
	case conn == nil:
		return false, nil
	case err != nil:
		refuses := refusesBatons(err) // as Galera does in its strict mode
		w.d.batons.refused.CompareAndSwap(false, refuses)
		w.d.putWaiting(conn, !refuses)
		if ctx.Err() != nil {
			w.d.ghosts.abandon(w.d, literal(w.p.Waiter))
		}
		return false, ctx.Err()
	case got:
		w.got(conn)
		return true, nil
	}
	w.d.putWaiting(conn, false)
	b := &w.d.batons
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn(w.p.Key).stuck = user
	return false, errNotYet
}

// got notes that the baton is ours.
func (w *waiting) got(conn *sql.Conn) {
	b := &w.d.batons
	var ended *sql.Conn // the session that had the baton for us before, or this one could not have it
	defer func() {
		if ended != nil {
			w.d.putWaiting(ended, true)
		}
	}()
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.turn(w.p.Key)
	ended, t.conn, t.waiter = t.conn, conn, w.p.Waiter
	t.woken = t.owner == "" // else the key has become ours in another way meanwhile
	t.stuck, t.othersFirst = 0, time.Time{}
}

// ask waits for the baton on a connection, which is nil if there is none to have.
func (w *waiting) ask(ctx context.Context, seconds int64) (conn *sql.Conn, got bool, user int64, err error) {
	for tries := 1; ; tries++ {
		if conn = w.connect(ctx); conn == nil {
			return nil, false, 0, nil
		}
		got, user, err = w.getLock(ctx, conn, seconds)
		if tries == attempts || !errors.Is(err, driver.ErrBadConn) {
			return conn, got, user, err
		}
		w.d.putWaiting(conn, true) // it broke while nobody used it
	}
}

// connect takes a connection to wait on, unless too many wait already, or the application needs them.
func (w *waiting) connect(ctx context.Context) *sql.Conn {
	b := &w.d.batons
	b.mu.Lock()
	ok := b.waiting < w.d.maxWaiting()
	if ok {
		b.waiting++
	}
	b.mu.Unlock()
	if !ok {
		return nil
	}
	var conn *sql.Conn
	if !w.d.full() {
		conn, _ = w.d.db.Conn(ctx)
	}
	if conn == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.waiting--
	}
	return conn
}

// maxWaiting is how many connections may wait at a time.
func (d *Driver) maxWaiting() int {
	if d.waitConns != 0 {
		return max(0, d.waitConns)
	}
	most := d.db.Stats().MaxOpenConnections
	if most == 0 {
		return defaultWaitConns
	}
	return min(defaultWaitConns, (most-1)/2)
}

// getLock waits for the baton. The waiter's name, which is nobody else's, makes the statement one that can be found and ended.
func (w *waiting) getLock(ctx context.Context, conn *sql.Conn, seconds int64) (got bool, user int64, err error) {
	name := w.d.batonName(w.s, w.p.Key)
	var a, u sql.NullInt64
	var marker []byte
	err = conn.QueryRowContext(ctx, "SELECT GET_LOCK("+name+", "+number(seconds)+"), IS_USED_LOCK("+name+"), "+literal(w.p.Waiter)).Scan(&a, &u, &marker)
	return a.Int64 == 1, u.Int64, err
}

// Leave gives up the turn of a waiter that does not want the key any more.
func (d *Driver) Leave(ctx context.Context, p dibsdriver.WaitParams) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.calls.Done()
	b := &d.batons
	b.mu.Lock()
	t := b.turns[p.Key]
	if t == nil || t.waiter != p.Waiter || t.owner != "" {
		b.mu.Unlock()
		return nil
	}
	conn := t.conn
	delete(b.turns, p.Key)
	b.mu.Unlock()
	if conn == nil {
		return nil
	}
	s, err := d.ensure(ctx)
	if err != nil {
		d.putWaiting(conn, true)
		return nil
	}
	d.giveAway(ctx, conn, d.batonName(s, p.Key))
	return nil
}
