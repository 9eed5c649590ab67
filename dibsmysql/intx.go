package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/fencing"
)

// InTx runs fn in a transaction on db that is fenced by the lock: it commits while the lease is this lock's, or not at all. It begins the
// transaction, at READ COMMITTED, on a connection of db; if fn returns an error or panics, rolls it back; otherwise fences it, as [Fence] does, and
// commits. From the fence to the end of the commit a release of the lock, or its handoff to the next in this process, waits. fn must not end the
// transaction, nor let the server do so (by DDL).
//
// What fn decides by it should read in its transaction, or at READ COMMITTED at least: at READ UNCOMMITTED one sees what an earlier holder has written whose commit is then refused.
//
// While the commit is under way the session's wait_timeout is one TTL at most, so that a process that freezes just then keeps the key no longer than that.
//
// Errors: fn's own; Fence's; [dibs.ErrUnavailable] if the transaction could not be begun, or the server refused the commit. After all of these the
// transaction is rolled back, and the error of a context that has ended is there as well. [dibs.ErrOutcomeUnknown] is the exception: the commit was
// sent, and its answer was lost, or did not come before ctx ended and for a second after that; or fn has ended the transaction itself. It was committed then or was not: look
// for what it wrote before you do it again, most easily by a row that carries the fencing token (see the example). If the server stays silent, the
// connection stays in use until the network gives it up, or readTimeout in the DSN does.
//
// It may be called concurrently, also for one lock, whose transactions then commit one after the other. Within fn it may be called for another
// transaction.
func InTx(ctx context.Context, db *sql.DB, lock *dibs.Lock, fn func(tx *sql.Tx) error) error {
	return inTx(ctx, db, lock, fn, false)
}

// InTxAndRelease is [InTx], and its commit releases the lock too: there is no moment in which the work is done and the lock still taken, nor the
// other way round. Where the lock has a min hold, the key stays taken for what is left of it. After that the lock is released: its Err is
// [dibs.ErrReleased], and the deferred call of its Release, which has nothing left to do, returns nil.
//
// If the transaction was not committed, the lock is still held. After [dibs.ErrOutcomeUnknown], Release settles it, whatever became of the commit. A
// lock that is held several times by its context (dibs.Reenter) is refused after fn, and the transaction rolled back.
func InTxAndRelease(ctx context.Context, db *sql.DB, lock *dibs.Lock, fn func(tx *sql.Tx) error) error {
	return inTx(ctx, db, lock, fn, true)
}

func inTx(ctx context.Context, db *sql.DB, lock *dibs.Lock, fn func(tx *sql.Tx) error, release bool) error {
	l, d, err := pin(lock) // what cannot end well is not begun
	if err != nil {
		return err
	}
	l.Unpin()
	if db == nil {
		return refused("dibs: %s: InTx was given no database (nil *sql.DB)", d.name())
	}
	t, err := d.begin(ctx, db)
	if err != nil {
		return err
	}
	defer t.abandon() // unless it came to a commit
	if err := t.work(ctx, fn); err != nil {
		return withCause(ctx, err)
	}
	if t.lease, _, err = pin(lock); err != nil {
		return withCause(ctx, err)
	}
	t.pinned = true
	if err := t.seal(ctx); err != nil {
		return withCause(ctx, err)
	}
	if release {
		if err := t.release(ctx); err != nil {
			return err
		}
	}
	return t.commit(ctx)
}

// transaction is one of [InTx], on a connection of its own.
type transaction struct {
	d      *Driver
	conn   *sql.Conn
	tx     *sql.Tx
	endTx  context.CancelFunc
	lease  fencing.Lease
	pinned bool
	frees  bool  // its commit releases the lease
	others int64 // what that has told of waiters
	sealed bool  // the session is set up for the commit
	over   bool
}

// marker is a savepoint from the beginning to the fence: it is gone if the transaction was committed under way, also if another was begun after that.
const marker = "dibs_intx"

func (d *Driver) begin(ctx context.Context, db *sql.DB) (*transaction, error) {
	for tries := 1; ; tries++ {
		t, err := d.tryBegin(ctx, db)
		if err == nil {
			return t, nil
		}
		if code(err) != 0 || ctx.Err() != nil || tries == attempts {
			return nil, d.fail("begin a transaction", withCause(ctx, err))
		}
	}
}

func (d *Driver) tryBegin(ctx context.Context, db *sql.DB) (*transaction, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	// With a context of its own: at the end of one, database/sql rolls back, and waits for the answer without end.
	own, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	tx, err := conn.BeginTx(own, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		end()
		drop(conn)
		return nil, err
	}
	stop()
	t := &transaction{d: d, conn: conn, tx: tx, endTx: end}
	if _, err := tx.ExecContext(ctx, "SAVEPOINT "+marker); err != nil {
		t.sealed = true
		t.abandon()
		return nil, err
	}
	return t, nil
}

// work runs fn. When ctx ends the transaction ends, also under fn.
func (t *transaction) work(ctx context.Context, fn func(tx *sql.Tx) error) error {
	stop := context.AfterFunc(ctx, func() { _ = t.rollback() })
	err := fn(t.tx)
	if !stop() && err == nil {
		err = t.d.fail("fence a transaction", ctx.Err())
	}
	return err
}

// rollback rolls back. If there is no answer, it closes the connection: (*sql.Tx).Rollback would wait for as long as the network does.
func (t *transaction) rollback() error {
	ctx, cancel := context.WithTimeout(context.Background(), commitGrace)
	defer cancel()
	_, err := t.tx.ExecContext(ctx, "ROLLBACK")
	_ = t.tx.Rollback()
	return err
}

// abandon rolls back. A connection of which not all is known to be as it was is closed, which ends its transaction for certain.
func (t *transaction) abandon() {
	if t.over {
		return
	}
	t.over = true
	err := t.rollback()
	t.endTx()
	if t.sealed || err != nil && err != sql.ErrTxDone {
		drop(t.conn)
	} else {
		_ = t.conn.Close()
	}
	t.end(fencing.NotCommitted)
}

func (t *transaction) end(o fencing.Outcome) {
	if t.frees {
		if o == fencing.Committed {
			t.pass()
		}
		t.lease.Freed(o)
	}
	if o == fencing.Unknown {
		t.lease.Unseen() // the server may still be at it
	}
	if t.pinned {
		t.lease.Unpin()
	}
}

// seal fences the transaction, and bounds how long the server waits for the rest.
func (t *transaction) seal(ctx context.Context) error {
	seconds := max(1, int64((t.lease.TTL+time.Second-1)/time.Second))
	t.sealed = true
	for _, statement := range []string{
		fmt.Sprintf("SET @dibs_wait_timeout = @@SESSION.wait_timeout, SESSION wait_timeout = CAST(LEAST(@@SESSION.wait_timeout, %d) AS UNSIGNED)", seconds),
		"RELEASE SAVEPOINT " + marker,
	} {
		switch _, err := t.tx.ExecContext(ctx, statement); {
		case code(err) == 1305, errors.Is(err, sql.ErrTxDone):
			return t.endedInside(err)
		case err != nil:
			return t.d.notFenced(ctx, t.tx, t.lease, nil, err)
		}
	}
	return t.d.fence(ctx, t.tx, t.lease)
}

// endedInside: the work, or the server, has ended the transaction under way.
func (t *transaction) endedInside(err error) error {
	return named(fmt.Errorf("dibs: %s: key %q, token %d: the transaction was ended inside the work (by COMMIT, ROLLBACK, BEGIN, LOCK TABLES, DDL or a deadlock): what was committed so "+
		"has taken effect without the fence; look for what is there; the lock is still held: %w", t.d.name(), t.lease.Key, t.lease.Token, err),
		dibs.ErrOutcomeUnknown, dibsdriver.ErrRefused, dibsdriver.ErrUnavailable)
}

const unsealSQL = "SET SESSION wait_timeout = @dibs_wait_timeout"

// release lets the commit release the lease.
func (t *transaction) release(ctx context.Context) error {
	if err := t.lease.Freeing(); err != nil {
		return err
	}
	t.frees = true
	p, err := t.d.whereabouts(ctx)
	if err != nil {
		return err
	}
	s, err := t.d.ensure(ctx)
	if err != nil {
		return err
	}
	key, owner := literal(t.lease.Key), literal(t.lease.Owner)
	statement := t.d.q.freeIn.with(key, owner, t.d.whetherOthers(s, t.lease.Key), p.database)
	if keep := t.lease.Keep(); keep > 0 {
		statement = t.d.q.keepIn.with(key, owner, number(micros(keep)), p.database)
	}
	res, err := t.tx.ExecContext(ctx, statement)
	if err != nil {
		return t.d.fail("release the lock of \""+t.lease.Key+"\" in a transaction", withCause(ctx, err))
	}
	t.others, err = res.LastInsertId()
	return err
}

// pass lets the next waiter know, once the commit has released the lease.
func (t *transaction) pass() {
	ctx, cancel := context.WithTimeout(context.Background(), commitGrace)
	defer cancel()
	if s := t.d.server.Load(); s != nil && t.d.enter(ctx) == nil {
		defer t.d.calls.Done()
		t.d.pass(ctx, s, dibsdriver.ReleaseParams{Key: t.lease.Key, Owner: t.lease.Owner}, t.others == othersWait)
	}
}

// commitGrace is how long after the end of its context a commit that was sent is waited for.
const commitGrace = time.Second

func (t *transaction) commit(ctx context.Context) error {
	t.over = true
	answered, done := make(chan struct{}), make(chan struct{})
	var err error
	go func() { // ends with the commit, for which no context can be given
		err = t.tx.Commit()
		close(answered)
		t.endTx()
		o := outcome(err)
		t.end(o)
		if o != fencing.Committed || !t.unseal() {
			drop(t.conn) // whatever the server thinks of the transaction: with its session it ends
		}
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		late := time.NewTimer(commitGrace)
		defer late.Stop()
		select {
		case <-done:
		case <-late.C:
			select {
			case <-answered: // and what comes after it is slow
			default:
				return t.unknown(withCause(ctx, context.DeadlineExceeded))
			}
		}
	}
	switch outcome(err) {
	case fencing.Committed:
		return nil
	case fencing.NotCommitted:
		if again(err) {
			return named(fmt.Errorf("dibs: %s: the transaction fenced by the lock of %q was not committed: another one was in the way (on another node, if this is a cluster); "+
				"do it again: %w", t.d.name(), t.lease.Key, withCause(ctx, err)), dibsdriver.ErrUnavailable)
		}
		return t.d.fail("commit the transaction fenced by the lock of \""+t.lease.Key+"\", which was not committed", withCause(ctx, err))
	}
	return t.unknown(withCause(ctx, err))
}

func (t *transaction) unknown(err error) error {
	return named(fmt.Errorf("dibs: %s: key %q, token %d: the commit was sent and its answer was lost: the transaction may be committed or not; "+
		"look for what it wrote before doing it again: %w", t.d.name(), t.lease.Key, t.lease.Token, err), dibs.ErrOutcomeUnknown)
}

// unseal gives the connection back as it was.
func (t *transaction) unseal() bool {
	ctx, cancel := context.WithTimeout(context.Background(), commitGrace)
	defer cancel()
	if _, err := t.conn.ExecContext(ctx, unsealSQL); err != nil {
		return false
	}
	return t.conn.Close() == nil
}
