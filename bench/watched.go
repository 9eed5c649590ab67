package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync/atomic"
)

// sent is how many statements this process has sent to its server.
var sent atomic.Int64

// watched is a connector whose connections count their statements. They have all the methods that those of go-sql-driver have.
type watched struct{ driver.Connector }

// Connect implements [driver.Connector].
func (w watched) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := w.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	full, ok := c.(fullConn)
	if !ok {
		return nil, errors.Join(errors.New("bench: a connection of go-sql-driver lacks what it had"), c.Close())
	}
	return watchedConn{full}, nil
}

type fullConn interface {
	driver.Conn
	driver.Pinger
	driver.ExecerContext
	driver.QueryerContext
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.SessionResetter
	driver.Validator
	driver.NamedValueChecker
}

type watchedConn struct{ fullConn }

// ExecContext counts one, unless the statement has to be prepared.
func (c watchedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	sent.Add(1) // before: the server counts it when it begins
	r, err := c.fullConn.ExecContext(ctx, query, args)
	if errors.Is(err, driver.ErrSkip) {
		sent.Add(-1)
	}
	return r, err
}

// QueryContext counts one, unless the statement has to be prepared.
func (c watchedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	sent.Add(1)
	r, err := c.fullConn.QueryContext(ctx, query, args)
	if errors.Is(err, driver.ErrSkip) {
		sent.Add(-1)
	}
	return r, err
}

// PrepareContext counts the execution that will follow: the server's Questions leave the preparation out.
func (c watchedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	sent.Add(1)
	return c.fullConn.PrepareContext(ctx, query)
}

// BeginTx counts the beginning and the end.
func (c watchedConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	sent.Add(2)
	return c.fullConn.BeginTx(ctx, o)
}
