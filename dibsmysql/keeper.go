package dibsmysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync/atomic"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// keeper is the connection that the driver keeps for renewals: business work that uses the whole pool up must not cost a lease.
type keeper struct {
	slot chan *sql.Conn // the connection, nil if there is none; who takes it out puts one back
	has  atomic.Bool
}

func (k *keeper) init() {
	k.slot = make(chan *sql.Conn, 1)
	k.slot <- nil
}

// The keeper's session is the driver's own for good, so it may be set up to suit: no statement of it waits long for a row, and the server
// does not end it between two renewals.
const keeperSQL = "SET SESSION innodb_lock_wait_timeout = 1, SESSION wait_timeout = 172800, SESSION sql_safe_updates = 0, SESSION autocommit = 1, SESSION timestamp = DEFAULT"

func openKeeper(ctx context.Context, db *sql.DB) (*sql.Conn, error) {
	return answering(ctx, db, func(ctx context.Context, conn *sql.Conn) error {
		if _, err := conn.ExecContext(ctx, "ROLLBACK"); err != nil { // whoever had it before may have left a transaction
			return err
		}
		_, err := conn.ExecContext(ctx, keeperSQL)
		return err
	})
}

// silence is how long a connection may be silent before the next is tried; each further one may half as long again.
const silence = 200 * time.Millisecond

// answering returns a connection of the pool on which ask was answered. After the failover of an address, or when a firewall has forgotten them,
// those that a pool keeps lead nowhere without its knowing, while a new one would reach the server: to wait on each for as long as for
// an answer would take longer than a lease has.
func answering(ctx context.Context, db *sql.DB, ask func(context.Context, *sql.Conn) error) (*sql.Conn, error) {
	for limit := silence; ; limit += limit / 2 {
		conn, err := db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		short, cancel := context.WithTimeout(ctx, limit)
		err = ask(short, conn)
		silent := short.Err() != nil
		cancel()
		if err == nil {
			return conn, nil
		}
		drop(conn)
		if !silent || ctx.Err() != nil {
			return nil, err
		}
	}
}

// drop closes a connection, which then does not return to the pool.
func drop(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close()
}

func (k *keeper) put(conn *sql.Conn, broken bool) {
	if conn != nil && broken {
		drop(conn)
		conn = nil
	}
	k.has.Store(conn != nil)
	k.slot <- conn
}

// idle takes the connection if there is one that nobody uses at the moment.
func (k *keeper) idle() *sql.Conn {
	select {
	case conn := <-k.slot:
		if conn == nil {
			k.slot <- nil
		}
		return conn
	default:
		return nil
	}
}

func (k *keeper) close() {
	if conn := <-k.slot; conn != nil {
		drop(conn)
	}
	k.has.Store(false)
	k.slot <- nil
}

// reserveKeeper takes the connection out of the pool before there is anything to renew.
func (d *Driver) reserveKeeper(ctx context.Context) error {
	if d.keeper.has.Load() {
		return nil
	}
	s, err := d.takeKeeper(ctx)
	if err != nil {
		return dibsdriver.NotApplied(d.fail("reserve a connection for renewals", err))
	}
	s.put(false)
	return nil
}

// patience is how long a request waits for one place to get a connection from before it tries another.
const patience = 10 * time.Millisecond

// takeKeeper takes the keeper's connection; or, if a renewal under way does not come back with it, one of the pool.
func (d *Driver) takeKeeper(ctx context.Context) (session, error) {
	for {
		wait := time.NewTimer(patience)
		select {
		case conn := <-d.keeper.slot:
			wait.Stop()
			if conn == nil {
				var err error
				if conn, err = openKeeper(ctx, d.db); err != nil {
					d.keeper.put(nil, false)
					return session{}, err
				}
				d.keeper.has.Store(true)
			}
			return session{conn, &d.keeper}, nil
		case <-ctx.Done():
			wait.Stop()
			return session{}, ctx.Err()
		case <-wait.C:
		}
		if !d.full() {
			conn, err := answering(ctx, d.db, func(ctx context.Context, conn *sql.Conn) error { return conn.PingContext(ctx) })
			return session{conn, nil}, err
		}
	}
}
