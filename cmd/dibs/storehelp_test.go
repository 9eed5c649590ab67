//go:build linux

package main_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"strconv"
	"syscall"
	"time"

	_ "modernc.org/sqlite"
)

func itoa(n int) string { return strconv.Itoa(n) }

func (b *bed) touch(name string) {
	b.t.Helper()
	if err := os.WriteFile(b.path(name), nil, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// freeze stops a dibs, where the store is a file while it is not writing: nobody else could go on.
func (r *running) freeze() {
	r.b.t.Helper()
	unblock := func() {}
	if r.b.served == nil {
		unblock = r.b.blockStore()
	}
	defer unblock()
	r.signal(syscall.SIGSTOP)
	r.b.must("it is stopped", func() bool { return state(r.pid()) == "T" })
}

// blockStore makes the store as good as away: it answers nobody (SQLite: nobody who writes) until the returned function is called.
func (b *bed) blockStore() (unblock func()) {
	b.t.Helper()
	if b.served != nil {
		b.wire.stall()
		return b.wire.pass
	}
	db, err := sql.Open("sqlite", "file:"+b.path("locks.db")+"?_pragma=busy_timeout(30000)")
	if err != nil {
		b.t.Fatal(err)
	}
	c, err := db.Conn(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := c.ExecContext(context.Background(), "BEGIN IMMEDIATE"); err != nil {
		b.t.Fatal(err)
	}
	done := false
	unblock = func() {
		if !done {
			done = true
			_, _ = c.ExecContext(context.Background(), "ROLLBACK")
			c.Close()
			db.Close()
		}
	}
	b.t.Cleanup(unblock)
	return unblock
}

// lock is a lock as dibs ls --json shows it.
type lock struct {
	Key, Holder, Note string
	Token             int64
	Since             time.Time
	ExpiresIn         float64 `json:"expires_in_seconds"`
	Ending            bool
}

func (b *bed) locks(prefix ...string) []lock {
	b.t.Helper()
	status, out, stderr := b.run(append([]string{"ls", "--json"}, prefix...)...)
	if status != 0 {
		b.t.Fatalf("ls: %d, %s", status, stderr)
	}
	var locks []lock
	if err := json.Unmarshal([]byte(out), &locks); err != nil {
		b.t.Fatalf("%v: %s", err, out)
	}
	return locks
}

// waiters is how many stand in line for any key.
func (b *bed) waiters() int {
	b.t.Helper()
	if b.served != nil {
		return b.servedWaiters()
	}
	return b.query("SELECT count(*) FROM dibs_waiters")
}

func (b *bed) query(sqlText string) int {
	b.t.Helper()
	db, err := sql.Open("sqlite", "file:"+b.path("locks.db")+"?mode=ro&_pragma=busy_timeout(30000)")
	if err != nil {
		b.t.Fatal(err)
	}
	defer db.Close()
	var n sql.NullInt64
	if err := db.QueryRow(sqlText).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return int(n.Int64)
}
