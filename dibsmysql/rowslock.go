package dibsmysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

const (
	// rowPoolWait is how long a pool that is used up is waited for.
	rowPoolWait = 5 * time.Second
	// rowSlotWait is how long a caller that does not wait for the row waits for a connection.
	rowSlotWait = 100 * time.Millisecond
)

// lock gets a connection and the row, or gives up when ctx ends: nobody is left who waits.
func (l *rowLine) lock(ctx context.Context) (*rowHold, error) {
	if err := l.takeSlot(ctx); err != nil {
		return nil, err
	}
	a := &rowAttempt{rowLine: l}
	h, err := a.until(ctx)
	if h == nil {
		a.put(false)
		<-l.r.slots
	}
	return h, err
}

// takeSlot waits until row locks may use one more connection. Callers that have one already are sent away: those who have the others may do the
// same, and each would wait for all.
func (l *rowLine) takeSlot(ctx context.Context) error {
	select {
	case l.r.slots <- struct{}{}:
		return nil
	default:
	}
	l.mu.Lock()
	l.starved = true
	l.answer(l.noneLeft(), func(w *rowWaiter) bool { return w.nested })
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.starved = false
		l.mu.Unlock()
	}()
	short := time.NewTimer(rowSlotWait)
	defer short.Stop()
	for {
		select {
		case l.r.slots <- struct{}{}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-short.C:
			l.mu.Lock()
			l.answer(l.noneLeft(), func(w *rowWaiter) bool { return w.once })
			l.mu.Unlock()
		}
	}
}

// rowAttempt is one on its way to the row, and its connection.
type rowAttempt struct {
	*rowLine
	conn  *sql.Conn
	dirty bool // the session is set up for us
}

// until asks for the row again and again. The first question does not wait in the server, which is all it takes when nobody else is there. Then the server's
// own queue is waited in, but only while the watch has a connection by which to end that. A line that had to wait once begins with that in its next turns.
func (a *rowAttempt) until(ctx context.Context) (*rowHold, error) {
	for tries := 1; ; tries++ {
		began := time.Now()
		h, err := a.once(ctx, a.watched && !a.hurried())
		switch {
		case err == nil:
			return h, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case rowBusy(err):
			a.answered()
			if !a.watched && ctx.Err() == nil {
				a.watched = a.r.watch.join(ctx)
			}
			if a.watched && (tries == 1 || time.Since(began) > rowSlotWait) {
				continue // it may wait now, or has waited
			}
		case errors.Is(err, dibsdriver.ErrUnavailable), errors.Is(err, ErrNotRegistered):
			return nil, err
		case tries < attempts && errors.Is(err, driver.ErrBadConn):
			continue
		default:
			err = a.r.fail(fmt.Sprintf("lock row %q", a.name), err)
			if errors.Is(err, dibsdriver.ErrRefused) || errors.Is(err, dibsdriver.ErrReadOnly) {
				return nil, err
			}
			a.silent(err)
		}
		if !pause(ctx, tries) {
			return nil, ctx.Err()
		}
	}
}

// rowBusy: the row is locked, or the server ended the wait for it. 1205 may have ended the transaction as well (innodb_rollback_on_timeout, on MariaDB even with NOWAIT), after which
// a locking read would lock nothing; so each question has a transaction of its own.
func rowBusy(err error) bool {
	switch code(err) {
	case 3572, 1205, 1213, 1020, 3024, 1969:
		return true
	}
	return false
}

// once is one transaction: it has the row, or is rolled back.
func (a *rowAttempt) once(ctx context.Context, wait bool) (*rowHold, error) {
	if a.conn == nil {
		s, err := a.r.take(ctx)
		if err != nil {
			return nil, err
		}
		a.conn = s.conn
	}
	h := &rowHold{r: a.r, line: a.rowLine, name: a.name, marker: fmt.Sprintf("dibs_%016x", rand.Uint64()), done: make(chan struct{})}
	err := a.begin(ctx, h)
	if err == nil {
		err = a.ask(ctx, h, wait)
	}
	if err == nil {
		h.conn, a.conn, h.since = a.conn, nil, time.Now()
		return h, nil
	}
	broken := h.tx == nil || code(err) == 0 && !errors.Is(err, ErrNotRegistered) || leave(err)
	if h.tx != nil {
		if err := h.tx.Rollback(); err != nil {
			broken = true
		}
		h.endTx()
	}
	if broken {
		a.put(true)
	}
	if code(err) == 1568 { // a stranger left a transaction open in this session, which has ended with it
		err = fmt.Errorf("%w: %w", driver.ErrBadConn, err)
	}
	return nil, err
}

func (a *rowAttempt) put(broken bool) {
	if a.conn == nil {
		return
	}
	if a.dirty && !broken {
		broken = !restoreRowSession(a.conn)
	}
	session{conn: a.conn}.put(broken)
	a.conn, a.dirty = nil, false
}

// begin starts a transaction that outlives ctx.
func (a *rowAttempt) begin(ctx context.Context, h *rowHold) error {
	prepare := a.r.q.prepare
	if a.dirty { // autocommit is off, and would be remembered so
		prepare = a.r.q.again
	}
	a.dirty = true
	if _, err := a.conn.ExecContext(ctx, prepare); err != nil {
		return err
	}
	life, end := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, end)
	tx, err := a.conn.BeginTx(life, nil)
	stop()
	if err != nil {
		end()
		return err
	}
	h.tx, h.endTx = tx, end
	return nil
}

// ask is the locking read, and the savepoint by which the end shows that this transaction is still the one that began.
func (a *rowAttempt) ask(ctx context.Context, h *rowHold, wait bool) error {
	question := fmt.Sprintf(a.r.q.lock, h.marker, a.id)
	var err error
	if wait {
		err = a.askAndWait(ctx, h, question)
	} else {
		err = h.scan(h.tx.QueryRowContext(ctx, question+" NOWAIT"))
	}
	if err != nil {
		return err
	}
	if a.r.multi {
		if _, err := h.tx.ExecContext(ctx, fmt.Sprintf(a.r.q.turn, a.id)); err != nil {
			return err
		}
	}
	_, err = h.tx.ExecContext(ctx, "SAVEPOINT "+h.marker)
	return err
}

// askAndWait waits in the server's queue. When ctx ends, the statement is ended there first (KILL QUERY), and only if that fails its connection is closed.
func (a *rowAttempt) askAndWait(ctx context.Context, h *rowHold, question string) error {
	asking, cut := context.WithCancel(context.Background())
	defer cut()
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		a.r.watch.kill(h.marker)
		t := time.AfterFunc(rowKillWait, cut)
		<-asking.Done()
		t.Stop()
	})
	err := h.scan(h.tx.QueryRowContext(asking, question))
	if !stop() {
		cut()
		<-killed
	}
	return err
}

// scan reads the answer of the locking read.
func (h *rowHold) scan(row *sql.Row) error {
	var name, marker string
	err := row.Scan(&name, &h.thread, &h.instance, &marker)
	if errors.Is(err, sql.ErrNoRows) || err == nil && name != h.name {
		return h.r.notRegistered(h.name) // somebody has deleted or changed it; READ COMMITTED has locked no gap
	}
	return err
}
