//go:build linux

package main_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-go/dibs/internal/testenv"
)

// stores are all kinds of store that the contract is tested on.
var stores = []string{"sqlite", "mysql", "mariadb"}

// everywhere runs a test on each kind of store.
func everywhere(t *testing.T, f func(t *testing.T, b *bed)) {
	on(t, stores, f)
}

// onServers runs a test on the stores that have a server.
func onServers(t *testing.T, f func(t *testing.T, b *bed)) {
	on(t, stores[1:], f)
}

func on(t *testing.T, kinds []string, f func(t *testing.T, b *bed)) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			switch kind {
			case "sqlite":
				f(t, newBed(t))
			case "mysql":
				f(t, newServedBed(t, testenv.MySQL(t)))
			case "mariadb":
				f(t, newServedBed(t, testenv.MariaDB(t)))
			}
		})
	}
}

// served is a database on a server, with a wire to it that can be cut.
type served struct {
	*testenv.Server
	database string
	admin    *sql.DB
	wire     *proxy
}

var databases atomic.Int64

// newServedBed has its store in a database of its own, where dibs has the rights of an application and no more.
func newServedBed(t *testing.T, s *testenv.Server) *bed {
	t.Helper()
	b := newBed(t)
	b.served = &served{Server: s, database: fmt.Sprintf("%scmd%d_%d", testenv.DatabasePrefix, os.Getpid(), databases.Add(1)), wire: newProxy(t, s.Addr)}
	root := b.sql(s.Admin, "")
	if !s.Own() {
		for _, statement := range testenv.SetupSQL() {
			b.exec(root, statement)
		}
	}
	b.exec(root, "CREATE DATABASE "+b.database)
	t.Cleanup(func() { _, _ = root.Exec("DROP DATABASE " + b.database) })
	b.admin = b.sql(s.Admin, b.database)
	b.named = b.database
	b.initTables()
	b.store = b.url(s.App, b.wire.addr, "")
	return b
}

// url is the store's, for an account, by way of an address.
func (b *bed) url(a testenv.Account, addr, params string) string {
	return fmt.Sprintf("%s://%s:%s@%s/%s%s", b.Kind, a.User, a.Password, addr, b.database, params)
}

func (b *bed) sql(a testenv.Account, database string) *sql.DB {
	b.t.Helper()
	db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/%s", a.User, a.Password, b.Addr, database))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { db.Close() })
	return db
}

func (b *bed) exec(db *sql.DB, statement string) {
	b.t.Helper()
	// Not the test's context: it has ended when cleaning up.
	if _, err := db.ExecContext(context.Background(), statement); err != nil {
		b.t.Fatalf("%s: %v", statement, err)
	}
}

// initTables runs dibs init, as somebody who may create tables.
func (b *bed) initTables() {
	b.t.Helper()
	cmd := exec.Command(binary, "init", "--store", b.url(b.Admin, b.Addr, ""))
	cmd.Env = []string{b.mark}
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("dibs init: %v, %s", err, out)
	}
}

// servedWaiters are the living processes that have asked for a key and do not hold one.
func (b *bed) servedWaiters() int {
	b.t.Helper()
	rows, err := b.admin.Query("SELECT holder FROM dibs_leases WHERE owner IS NOT NULL AND expires > UTC_TIMESTAMP(6)")
	if err != nil {
		b.t.Fatal(err)
	}
	defer rows.Close()
	var holders []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			b.t.Fatal(err)
		}
		holders = append(holders, name)
	}
	if err := rows.Err(); err != nil {
		b.t.Fatal(err)
	}
	n := 0
	for _, pid := range b.wire.asked() {
		if alive(pid) && !slices.ContainsFunc(holders, func(h string) bool { return strings.HasSuffix(h, " pid "+itoa(pid)) }) {
			n++
		}
	}
	return n
}

// threads counts what the server does for dibs at the moment: its connections, but those of this test.
func (b *bed) threads() (n int) {
	b.t.Helper()
	err := b.admin.QueryRow("SELECT COUNT(*) FROM information_schema.processlist WHERE db = ? AND user <> ?", b.database, b.Admin.User).Scan(&n)
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// connectionsEnd is a test's last look at its server: within a second nothing of dibs is left there.
func (b *bed) connectionsEnd() {
	b.t.Helper()
	begin := time.Now()
	b.must("no connection is left", func() bool { return b.threads() == 0 })
	if took := time.Since(begin); took > 5*time.Second { // a second, and what a busy machine adds
		b.t.Errorf("the last connection ended after %s", took)
	}
}
