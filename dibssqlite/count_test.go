package dibssqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"modernc.org/sqlite"
)

// counter wraps the sql driver and writes down every statement, as a tracer would.
type counter struct {
	driver.Connector
	mu   sync.Mutex
	seen []string
	on   func(query string) // is told of each before it is run; may be nil
}

func newCounter(t testing.TB, dsn string) *counter {
	t.Helper()
	inner, err := sqlite.NewConnector(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return &counter{Connector: inner}
}

func (c *counter) Driver() driver.Driver { return strangeDriver{} }

func (c *counter) note(query string) {
	if c.on != nil {
		c.on(query)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, query)
}

// take returns the first words of the statements since the last time.
func (c *counter) take() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.seen {
		for strings.HasPrefix(q, "--") {
			_, q, _ = strings.Cut(q, "\n")
		}
		word, _, _ := strings.Cut(q, " ")
		all = append(all, strings.TrimSpace(word))
	}
	c.seen = nil
	return all
}

func (c *counter) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &countingConn{inner.(sqliteConn), c}, nil
}

type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

type countingConn struct {
	sqliteConn
	c *counter
}

func (c *countingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.c.note(query)
	return c.sqliteConn.ExecContext(ctx, query, args)
}

func (c *countingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.c.note(query)
	return c.sqliteConn.QueryContext(ctx, query, args)
}

func (c *countingConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.sqliteConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return &countingStmt{s.(sqliteStmt), c.c, query}, nil
}

type sqliteStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type countingStmt struct {
	sqliteStmt
	c     *counter
	query string
}

func (s *countingStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.c.note(s.query)
	return s.sqliteStmt.ExecContext(ctx, args)
}

func (s *countingStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.c.note(s.query)
	return s.sqliteStmt.QueryContext(ctx, args)
}

// openCounting is Open with a counter under it.
func openCounting(t testing.TB) (*Driver, *counter) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "locks.db")
	d := open(t, path)
	d.db.Close()
	c := newCounter(t, dsn(path))
	d.db = sql.OpenDB(c)
	d.db.SetMaxIdleConns(-1)
	return d, c
}

// strangeDriver is some other database.
type strangeDriver struct{}

func (strangeDriver) Open(string) (driver.Conn, error) { return strangeConn{}, nil }

type strangeConn struct{}

func (strangeConn) Prepare(query string) (driver.Stmt, error) { return nil, errStrange }
func (strangeConn) Close() error                              { return nil }
func (strangeConn) Begin() (driver.Tx, error)                 { return nil, errStrange }

type strangeError struct{}

func (strangeError) Error() string { return "ERROR 1305: FUNCTION does not exist" }

var errStrange = strangeError{}

func init() { sql.Register("dibssqlite-strange", strangeDriver{}) }
