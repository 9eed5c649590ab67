package dibssqlite

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	sqlite3 "modernc.org/sqlite/lib"
)

// How long to pause before the file's lock is tried for again. A transaction of ours takes some hundred microseconds.
const (
	firstPause  = 100 * time.Microsecond
	lastPause   = 5 * time.Millisecond
	urgentPause = time.Millisecond
)

// txn is a write transaction under way.
type txn struct {
	*session
	d      *Driver
	ctx    context.Context
	urgent bool
	lost   bool // the turn, when the context ended while we gave way
}

// write runs fn in one transaction that begins with the file's write lock. A transaction that reads first and then wants
// to write fails at once when somebody else has written meanwhile, whatever busy_timeout says.
//
// fn may run several times. When it returns errNoChange the transaction is rolled back and write returns nil. Whatever else goes wrong
// before COMMIT was not applied; after that nothing is under way any more, since SQLite works in this process.
func (d *Driver) write(ctx context.Context, doing string, from *slots, fn func(*session) error) error {
	s, err := d.take(ctx, from)
	if err != nil {
		return dibsdriver.NotApplied(d.fail(doing, err))
	}
	defer d.put(from, s)
	t := &txn{session: s, d: d, ctx: ctx, urgent: from == d.keeper}
	if err := d.turn.enter(ctx, t.urgent); err != nil {
		return dibsdriver.NotApplied(d.fail(doing, err))
	}
	defer t.leave()
	err = d.waitForLock(ctx, t, func() error { return t.begin(fn) })
	if errors.Is(err, errNoChange) {
		return nil
	}
	if err != nil {
		return dibsdriver.NotApplied(d.fail(doing, t.note(err)))
	}
	if err := t.commit(doing); err != nil {
		return err
	}
	if !t.urgent {
		t.sweepIfDue()
	}
	return nil
}

// writeOne runs fn, which is one statement that needs no transaction around it: it takes the write lock before it reads, and a busy answer
// has done nothing. This halves the cost. Only for our own files in WAL mode, where a commit waits for no reader.
func (d *Driver) writeOne(ctx context.Context, doing string, fn func(*session) error) error {
	s, err := d.take(ctx, d.writer)
	if err != nil {
		return dibsdriver.NotApplied(d.fail(doing, err))
	}
	defer d.put(d.writer, s)
	t := &txn{session: s, d: d, ctx: ctx}
	if err := d.turn.enter(ctx, false); err != nil {
		return dibsdriver.NotApplied(d.fail(doing, err))
	}
	defer t.leave()
	err = d.waitForLock(ctx, t, func() error { return fn(s) })
	if err == nil {
		t.sweepIfDue()
		return nil
	}
	if errors.Is(err, sql.ErrNoRows) {
		return err
	}
	failed := d.fail(doing, t.note(err))
	if sqliteCode(err) == sqlite3.SQLITE_IOERR {
		return dibsdriver.Settled(failed) // perhaps at the very end
	}
	return dibsdriver.NotApplied(failed)
}

// oneStatement tells whether writeOne may be used.
func (d *Driver) oneStatement() bool {
	r := d.ready.Load()
	return d.own && r != nil && r.wal
}

func (t *txn) leave() {
	if !t.lost {
		t.d.turn.leave()
	}
}

// begin leaves a transaction open only if it returns nil.
func (t *txn) begin(fn func(*session) error) error {
	if err := t.exec("BEGIN IMMEDIATE"); err != nil {
		if t.session.ctx.Err() != nil {
			// Interrupted, maybe after it began.
			t.rollback()
		}
		return err
	}
	err := fn(t.session)
	if err == nil {
		err = t.ctx.Err()
	}
	if err != nil {
		t.rollback()
	}
	return err
}

func (t *txn) commit(doing string) error {
	// In a rollback journal a commit waits for readers, and the transaction stays open meanwhile.
	err := t.d.waitForLock(t.ctx, nil, func() error { return t.exec("COMMIT") })
	if err == nil {
		return nil
	}
	err = t.d.fail(doing, t.note(err))
	if t.rollback() {
		return dibsdriver.NotApplied(err)
	}
	return dibsdriver.Settled(err)
}

// note draws the conclusions from an error of SQLite.
func (t *txn) note(err error) error {
	if noTable(err) {
		t.d.ready.Store(nil) // somebody dropped the tables; the next call makes them anew
	}
	if t.d.own && sqliteCode(err) != 0 && !busy(err) {
		t.broken = true // a new connection may see a file that has been mended
	}
	return err
}

// read runs fn on a connection for reading. fn may run several times.
func (d *Driver) read(ctx context.Context, doing string, fn func(*session) error) error {
	s, err := d.take(ctx, d.readers)
	if err != nil {
		return dibsdriver.NotApplied(d.fail(doing, err))
	}
	defer d.put(d.readers, s)
	if err := d.waitForLock(ctx, nil, func() error { return fn(s) }); err != nil {
		t := &txn{session: s, d: d}
		return dibsdriver.NotApplied(d.fail(doing, t.note(err)))
	}
	return nil
}

// waitForLock calls try until its answer is not busy, or ctx ends. The pauses are ours, because SQLite's own do not end with
// a context and are not jittered. The write lock of another process can be held for any time. t is the transaction that waits in the
// turnstile's front, or nil.
func (d *Driver) waitForLock(ctx context.Context, t *txn, try func() error) error {
	top := lastPause
	if t != nil && t.urgent {
		top = urgentPause
	}
	pause := firstPause
	var timer *time.Timer
	for {
		err := try()
		if !busy(err) {
			return err
		}
		wait := pause/2 + rand.N(pause/2)
		if timer == nil {
			timer = time.NewTimer(wait)
			defer timer.Stop()
		} else {
			timer.Reset(wait)
		}
		select {
		case <-timer.C:
		case <-ctx.Done():
			return &lockedError{ctx.Err(), err}
		case <-d.closing:
			return d.closedError()
		}
		pause = min(pause*3/2, top)
		if t == nil || t.urgent {
			continue
		}
		if ctxErr := d.turn.giveWay(ctx); ctxErr != nil {
			t.lost = true
			return &lockedError{ctxErr, err}
		}
	}
}
