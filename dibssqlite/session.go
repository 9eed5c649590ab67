package dibssqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync"
)

// session is one connection, in the hands of one call at a time.
type session struct {
	conn   *sql.Conn
	made   *readiness           // under which it was opened
	stmts  map[string]*sql.Stmt // of a connection that is ours for good; nil for one that goes back to the user's pool
	broken bool                 // must not be used again

	// ctx is what statements run under. Ours never wait for a lock inside SQLite, so they need no context, and the outcome of each is exact. On
	// the user's connections a busy_timeout may be set, and a statement has to end with the caller's context.
	ctx context.Context
}

// slots are the right to use one of a few sessions that are kept open. The one used last is used next, so that no more are
// opened than are needed.
type slots struct {
	free chan struct{}
	mu   sync.Mutex
	idle []*session
}

func newSlots(n int) *slots {
	sl := &slots{free: make(chan struct{}, n)}
	for range n {
		sl.free <- struct{}{}
	}
	return sl
}

// pop and push are for who has taken from free.
func (sl *slots) pop() (s *session) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if n := len(sl.idle); n > 0 {
		s, sl.idle = sl.idle[n-1], sl.idle[:n-1]
	}
	return s
}

func (sl *slots) push(s *session) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.idle = append(sl.idle, s)
}

// first keeps a session if there is none.
func (sl *slots) first(s *session) bool {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if len(sl.idle) > 0 {
		return false
	}
	sl.idle = append(sl.idle, s)
	return true
}

// closeAll is called when no call is under way.
func (sl *slots) closeAll() {
	for s := sl.pop(); s != nil; s = sl.pop() {
		s.close(false)
	}
}

// take gets a session. The user's connections are borrowed for the one call, but for the keeper's.
func (d *Driver) take(ctx context.Context, from *slots) (s *session, err error) {
	if d.own || from == d.keeper {
		select {
		case <-from.free:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-d.closing:
			return nil, d.closedError()
		}
		defer func() {
			if err != nil {
				from.free <- struct{}{}
			}
		}()
		for s = from.pop(); s != nil && s.made != d.ready.Load(); s = from.pop() {
			s.close(true)
		}
	}
	if s == nil {
		err = d.waitForLock(ctx, nil, func() (err error) {
			s, err = d.newSession(ctx)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	s.ctx = d.statementContext(ctx)
	return s, nil
}

// put ends what take began.
func (d *Driver) put(from *slots, s *session) {
	if !d.own && from != d.keeper {
		s.close(s.broken)
		return
	}
	if s.broken {
		s.close(true)
	} else {
		from.push(s)
	}
	from.free <- struct{}{}
}

func (d *Driver) statementContext(ctx context.Context) context.Context {
	if d.own {
		return context.Background()
	}
	return ctx
}

// newSession may answer busy.
func (d *Driver) newSession(ctx context.Context) (*session, error) {
	s := &session{made: d.ready.Load(), ctx: d.statementContext(ctx)}
	var err error
	if !d.own {
		if s.conn, err = d.borrow(ctx); err != nil {
			return nil, err
		}
		return s, nil
	}
	if s.conn, err = d.db.Conn(s.ctx); err != nil {
		return nil, err
	}
	s.stmts = make(map[string]*sql.Stmt)
	// NORMAL syncs only at checkpoints. What a power cut may take back was held by processes that it ended too; see the
	// package's documentation.
	if err := s.exec("PRAGMA synchronous = NORMAL"); err != nil {
		s.close(true)
		return nil, err
	}
	return s, nil
}

// borrow is db.Conn, but returns with ctx even while a connection is being opened, which a DSN with a busy_timeout and pragmas can make
// long.
func (d *Driver) borrow(ctx context.Context) (*sql.Conn, error) {
	type answer struct {
		conn *sql.Conn
		err  error
	}
	got := make(chan answer)
	d.calls.Add(1) // so that Close waits for it
	go func() {
		defer d.calls.Done()
		conn, err := d.db.Conn(ctx)
		select {
		case got <- answer{conn, err}:
		case <-ctx.Done():
			if conn != nil {
				_ = conn.Close()
			}
		}
	}()
	select {
	case a := <-got:
		return a.conn, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// close gives the connection up: really closed if it is broken (or ours), else back to the user's pool as it was.
func (s *session) close(broken bool) {
	for _, stmt := range s.stmts {
		_ = stmt.Close()
	}
	if broken || s.broken {
		_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	_ = s.conn.Close()
}

func (s *session) prepared(query string) (*sql.Stmt, error) {
	stmt := s.stmts[query]
	if stmt == nil {
		var err error
		if stmt, err = s.conn.PrepareContext(s.ctx, query); err != nil {
			return nil, err
		}
		s.stmts[query] = stmt
	}
	return stmt, nil
}

func (s *session) exec(query string, args ...any) error {
	if s.stmts == nil {
		_, err := s.conn.ExecContext(s.ctx, query, args...)
		return err
	}
	stmt, err := s.prepared(query)
	if err == nil {
		_, err = stmt.ExecContext(s.ctx, args...)
	}
	return err
}

func (s *session) query(query string, args ...any) (*sql.Rows, error) {
	if s.stmts == nil {
		return s.conn.QueryContext(s.ctx, query, args...)
	}
	stmt, err := s.prepared(query)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(s.ctx, args...)
}

// each runs scan for every row.
func (s *session) each(scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := s.query(query, args...)
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

// row is for statements of one row at most.
func (s *session) row(query string, args ...any) rowScanner {
	if s.stmts == nil {
		return s.conn.QueryRowContext(s.ctx, query, args...)
	}
	stmt, err := s.prepared(query)
	if err != nil {
		return failedRow{err}
	}
	return stmt.QueryRowContext(s.ctx, args...)
}

// now reads SQLite's clock. Within a write transaction nobody else can write between this and what is made of it.
func (s *session) now() (ms int64, err error) {
	err = s.row("SELECT " + now).Scan(&ms)
	return ms, err
}

type rowScanner interface{ Scan(dest ...any) error }

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

// rollback leaves no transaction behind: where SQLite will not say so, the connection is given up, which ends
// it as well. It reports whether there was a transaction, which it ended.
func (s *session) rollback() bool {
	ctx := s.ctx
	s.ctx = context.Background() // also when the caller's has ended; takes no lock
	err := s.exec("ROLLBACK")
	s.ctx = ctx
	if err != nil && !noTransaction(err) {
		s.broken = true
	}
	return err == nil
}
