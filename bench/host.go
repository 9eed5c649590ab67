package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/dibs-go/dibs/dibsmysql"
	"github.com/dibs-go/dibs/dibssqlite"
	"github.com/dibs-go/dibs/internal/testenv"
)

// host is a store with what only this program's first process may do to it.
type host struct {
	store
	waiter store   // the same, as another user, so that the server can tell their connections apart
	admin  *sql.DB // nil if the store is no server
	undo   []func() error
	next   int // number of the next key
}

// key is one that nobody has used yet (after keys of them, that nobody uses any more), followed by n more of the kind.
func (h *host) key(n int) int {
	if h.next+n > keys {
		h.next = 100 // those below are the lonely ones'
	}
	k := h.next
	h.next += n
	return k
}

// prepare starts a store, or finds it, and makes tables.
func prepare(ctx context.Context, name string) (h *host, err error) {
	h = &host{store: store{Name: name}, next: 100}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("bench: preparing %s: %w", name, err), h.close())
		}
	}()
	switch name {
	case "sqlite":
		err = h.files(ctx)
	case "mysql":
		err = h.serve(ctx, testenv.MySQL)
	case "mariadb":
		err = h.serve(ctx, testenv.MariaDB)
	}
	h.waiter = h.store
	if h.server() {
		h.waiter.User, h.waiter.Password = waiterUser, waiterPassword
	}
	return h, err
}

// close removes what prepare has made.
func (h *host) close() (err error) {
	for i := len(h.undo) - 1; i >= 0; i-- {
		err = errors.Join(err, h.undo[i]())
	}
	return err
}

func (h *host) files(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "dibs-bench-")
	if err != nil {
		return err
	}
	h.Folder = dir
	h.undo = append(h.undo, func() error { return os.RemoveAll(dir) })
	d, err := dibssqlite.Open(h.locksFile(), nil)
	if err != nil {
		return err
	}
	if err := errors.Join(d.Ping(ctx), d.Close()); err != nil {
		return err
	}
	db, err := h.peersPool(1)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, insertTableSQLite)
	return errors.Join(err, db.Close())
}

const waiterUser, waiterPassword = "dibs_waiter", "waiter"

func (h *host) serve(ctx context.Context, start func(testing.TB) *testenv.Server) error {
	s, err := started(start)
	if err != nil {
		return err
	}
	h.Addr, h.Database = s.Addr, fmt.Sprintf("%sbench_%d", testenv.DatabasePrefix, os.Getpid())
	asAdmin := h.store
	asAdmin.User, asAdmin.Password, asAdmin.Database = s.Admin.User, s.Admin.Password, ""
	root, err := asAdmin.pool(1)
	if err != nil {
		return err
	}
	h.undo = append(h.undo, root.Close)
	var setup []string
	if !s.Own() {
		setup = testenv.SetupSQL()
	}
	setup = append(setup, "CREATE DATABASE "+h.Database, "CREATE USER IF NOT EXISTS '"+waiterUser+"'@'%' IDENTIFIED BY '"+waiterPassword+"'",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON "+h.Database+".* TO '"+waiterUser+"'@'%'")
	if err := execAll(ctx, root, setup...); err != nil {
		return err
	}
	h.undo = append(h.undo, func() error {
		return execAll(context.Background(), root, "DROP DATABASE "+h.Database, "DROP USER IF EXISTS '"+waiterUser+"'@'%'")
	})
	asAdmin.Database = h.Database
	if h.admin, err = asAdmin.pool(1); err != nil {
		return err
	}
	h.undo = append(h.undo, h.admin.Close)
	d := dibsmysql.New(h.admin, nil)
	if err := errors.Join(d.CreateTables(ctx), d.Close()); err != nil {
		return err
	}
	h.User, h.Password = s.App.User, s.App.Password
	return execAll(ctx, h.admin, insertTable, rowTable, fillRows())
}

func execAll(ctx context.Context, db *sql.DB, statements ...string) error {
	for _, s := range statements {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%.60s: %w", s, err)
		}
	}
	return nil
}

// started is for testenv, which wants a test to fail.
func started(start func(testing.TB) *testenv.Server) (s *testenv.Server, err error) {
	defer func() {
		if p := recover(); p != nil {
			f, ok := p.(failure)
			if !ok {
				panic(p)
			}
			err = f.error
		}
	}()
	return start(noTest{}), nil
}

type noTest struct{ testing.TB }

type failure struct{ error }

// Helper implements [testing.TB].
func (noTest) Helper() {}

// Fatal implements [testing.TB]: it ends started with an error.
func (noTest) Fatal(args ...any) { panic(failure{errors.New(fmt.Sprint(args...))}) }

// questions is how many statements the server has had from all clients; asking is one of them.
func (h *host) questions(ctx context.Context) (n int64, err error) {
	var name string
	err = h.admin.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n)
	return n, err
}

// connections is how many the waiting process has.
func (h *host) connections(ctx context.Context) (n int, err error) {
	err = h.admin.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE user = '"+waiterUser+"'").Scan(&n)
	return n, err
}
