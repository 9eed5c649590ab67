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

// session is a connection that is ours for one request.
type session struct {
	conn *sql.Conn
	from *keeper // nil: the pool
}

func (s session) put(broken bool) {
	switch {
	case s.from != nil:
		s.from.put(s.conn, broken)
	case broken:
		drop(s.conn)
	default:
		_ = s.conn.Close()
	}
}

// full tells whether the pool has no connection for us at the moment.
func (d *Driver) full() bool {
	s := d.db.Stats()
	return s.MaxOpenConnections > 0 && s.InUse >= s.MaxOpenConnections
}

// take returns a connection of the pool. If all are in use it may be the keeper's: those who have them may be waiting for just this
// release.
func (d *Driver) take(ctx context.Context) (session, error) {
	for {
		wait, cancel := ctx, context.CancelFunc(func() {})
		full := d.full()
		if full { // what ends early is a wait, not a connection in the making
			wait, cancel = context.WithTimeout(ctx, patience)
		}
		conn, err := d.db.Conn(wait)
		cancel()
		if err == nil {
			return session{conn, nil}, nil
		}
		if !full || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return session{}, err
		}
		if conn := d.keeper.idle(); conn != nil {
			return session{conn, &d.keeper}, nil
		}
	}
}

// takeSpare returns the keeper's connection if nobody uses it at the moment: a waiter then needs no more than that one and the one it waits on. It
// is for requests that wait for nothing.
func (d *Driver) takeSpare(ctx context.Context) (session, error) {
	if conn := d.keeper.idle(); conn != nil {
		return session{conn, &d.keeper}, nil
	}
	return d.take(ctx)
}

// attempts bounds how many connections a request tries that turn out to be broken before anything is sent.
const attempts = 4

// request is one statement on its way.
type request struct {
	doing  string
	take   func(ctx context.Context) (session, error)
	marker string // what the statement can be found by in the server; "" if it waits for nothing
	reads  bool   // it changes nothing, or may be sent twice
}

// send runs f on a connection, again where that is known to be harmless, and returns an error for callers.
func (d *Driver) send(ctx context.Context, r request, f func(*sql.Conn) error) error {
	for tries := 1; ; tries++ {
		s, err := r.take(ctx)
		if err != nil {
			if tries < attempts && errors.Is(err, driver.ErrBadConn) {
				continue
			}
			return dibsdriver.NotApplied(d.fail(r.doing, err))
		}
		err = f(s.conn)
		number := code(err)
		s.put(err != nil && number == 0 || leave(err))
		switch {
		case err == nil:
			return nil
		case again(err) && pause(ctx, tries):
			continue
		case tries < attempts && number == 0 && ctx.Err() == nil && (r.reads || errors.Is(err, driver.ErrBadConn)):
			continue
		}
		if errors.Is(err, driver.ErrBadConn) && d.rejectsWrites(ctx) {
			err = errRejected
		}
		fate := fate(err)
		if r.reads {
			fate = dibsdriver.FateNotApplied
		}
		if fate == dibsdriver.FateUnknown && r.marker != "" {
			d.ghosts.abandon(d, r.marker)
		}
		return dibsdriver.WithFate(d.fail(r.doing, err), fate)
	}
}

// exec runs a statement on a connection of the pool. It returns what LAST_INSERT_ID carried, which is 0 if the table has triggers, and
// whether the server says that it has changed a row.
func (d *Driver) exec(ctx context.Context, doing, marker, statement string) (id int64, changed bool, err error) {
	err = d.send(ctx, request{doing: doing, take: d.take, marker: marker}, func(conn *sql.Conn) (err error) {
		id, changed, err = execute(ctx, conn, statement)
		return err
	})
	return id, changed, err
}

func execute(ctx context.Context, conn *sql.Conn, statement string) (id int64, changed bool, err error) {
	res, err := conn.ExecContext(ctx, statement)
	if err != nil {
		return 0, false, err
	}
	if id, err = res.LastInsertId(); err != nil {
		return 0, false, err
	}
	n, err := res.RowsAffected()
	return id, n > 0, err
}

// each reads the rows of a statement. scan is called for each, and begin before each attempt.
func (d *Driver) each(ctx context.Context, doing, statement string, begin func(), scan func(*sql.Rows) error) error {
	return d.send(ctx, request{doing: doing, take: d.take, reads: true}, func(conn *sql.Conn) error {
		begin()
		return eachRow(ctx, conn, statement, scan)
	})
}

func eachRow(ctx context.Context, conn *sql.Conn, statement string, scan func(*sql.Rows) error) error {
	rows, err := conn.QueryContext(ctx, statement)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// pause waits for a moment, longer each time; false if ctx ended first.
func pause(ctx context.Context, tries int) bool {
	longest := min(time.Millisecond<<min(tries, 6), 50*time.Millisecond)
	t := time.NewTimer(rand.N(longest))
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
