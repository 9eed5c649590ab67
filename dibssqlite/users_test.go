package dibssqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// TestUsersConnections: they come back as they were, all of them, and the database stays open.
func TestUsersConnections(t *testing.T) {
	goroutinesBack(t)
	c := newCounter(t, "file:"+tempFile(t)+"?_busy_timeout=1234&_synchronous=EXTRA&_journal_mode=WAL&_foreign_keys=on")
	db := sql.OpenDB(c)
	defer db.Close()
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	state := func() (all []string) {
		var conns []*sql.Conn
		for range db.Stats().MaxOpenConnections - db.Stats().InUse {
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
		}
		for _, conn := range conns {
			var s string
			for _, pragma := range []string{"busy_timeout", "synchronous", "journal_mode", "foreign_keys", "query_only", "wal_autocheckpoint", "temp_store"} {
				var v string
				if err := conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&v); err != nil {
					t.Fatal(err)
				}
				s += pragma + "=" + v + " "
			}
			if _, err := conn.ExecContext(t.Context(), "BEGIN"); err != nil {
				t.Error("a transaction was left open:", err)
			}
			_, _ = conn.ExecContext(t.Context(), "ROLLBACK")
			all = append(all, s)
			conn.Close()
		}
		return all
	}
	before := state()[0]
	c.take()
	d := New(db, nil)
	for i := range 30 {
		key := fmt.Sprint(i)
		owner, token := take(t, d, key, time.Hour)
		ask(t, d, key, "w")
		ended, cancel := context.WithTimeout(t.Context(), time.Duration(i*20)*time.Microsecond)
		_, _ = d.Acquire(ended, dibsdriver.AcquireParams{Key: key + "x", Owner: newOwner(), TTL: time.Hour})
		_ = d.Release(ended, dibsdriver.ReleaseParams{Key: key + "x", Owner: owner})
		cancel()
		if _, err := d.Renew(t.Context(), []dibsdriver.Renewal{{Key: key, Owner: owner, TTL: time.Hour}}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Break(t.Context(), dibsdriver.BreakParams{Key: key, Token: token}); err != nil {
			t.Fatal(err)
		}
		release(t, d, key, owner)
	}
	eventually(t, "only the keeper's connection is in use", func() bool { return db.Stats().InUse == 1 })
	for _, word := range c.take() {
		if word == "PRAGMA" {
			t.Error("the driver sets a PRAGMA on a user's connection")
		}
	}
	for _, s := range state() {
		if s != before {
			t.Errorf("a connection has %s\nand had %s", s, before)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if n := db.Stats().InUse; n != 0 {
		t.Error(n, "connections were kept")
	}
	if got := state(); len(got) != 4 || got[0] != before {
		t.Error(got)
	}
}

// TestKeeperHasItsConnection: renewals go on when the user's own work has used the pool up.
func TestKeeperHasItsConnection(t *testing.T) {
	db := raw(t, "file:"+tempFile(t)+"?_busy_timeout=5000&_journal_mode=WAL")
	db.SetMaxOpenConns(2)
	d := New(db, nil)
	defer d.Close()
	owner, _ := take(t, d, "k", time.Hour)
	for { // all there are
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		conn, err := db.Conn(ctx)
		cancel()
		if err != nil {
			break
		}
		defer conn.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if a, err := d.Renew(ctx, []dibsdriver.Renewal{{Key: "k", Owner: owner, TTL: time.Hour}}); err != nil || a[0] != dibsdriver.Renewed {
		t.Error(a, err)
	}
	// Everything else waits for a connection, as long as its context allows.
	ended, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := d.Release(ended, dibsdriver.ReleaseParams{Key: "k", Owner: owner})
	if !errors.Is(err, context.DeadlineExceeded) || dibsdriver.FateOf(err) != dibsdriver.FateNotApplied || time.Since(start) > 20*time.Millisecond+dibsdriver.Grace {
		t.Error(err, time.Since(start))
	}
}

func TestUnusableDB(t *testing.T) {
	small := raw(t, tempFile(t))
	small.SetMaxOpenConns(1)
	strange, err := sql.Open("dibssqlite-strange", "")
	if err != nil {
		t.Fatal(err)
	}
	closed, err := sql.Open("sqlite", tempFile(t))
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, c := range []struct {
		name         string
		db           *sql.DB
		early, wrong bool // at Limits; ErrRefused
		says         string
	}{
		{"pool of one", small, true, true, "SetMaxOpenConns"},
		{"nil", nil, true, true, "nil *sql.DB"},
		{"other driver", strange, false, true, "modernc.org/sqlite"},
		{"in memory", raw(t, ":memory:"), false, true, "dibsmem"},
		{"closed", closed, false, false, "closed before the driver"},
	} {
		d := New(c.db, nil)
		_, limits := d.Limits()
		_, acquire := d.Acquire(t.Context(), dibsdriver.AcquireParams{Key: "k", Owner: newOwner(), TTL: time.Hour})
		for what, err := range map[string]error{"Ping": d.Ping(t.Context()), "Acquire": acquire, "Limits": limits} {
			if what == "Limits" && !c.early {
				if err != nil {
					t.Errorf("%s: %s: %v", c.name, what, err)
				}
				continue
			}
			if err == nil || errors.Is(err, dibsdriver.ErrRefused) != c.wrong || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %s: %v", c.name, what, err)
			}
			if what != "Limits" && dibsdriver.FateOf(err) != dibsdriver.FateNotApplied {
				t.Errorf("%s: %s: fate %v", c.name, what, dibsdriver.FateOf(err))
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOpenAndNewShare: the same file by both ways is the same locks.
func TestOpenAndNewShare(t *testing.T) {
	d := open(t, tempFile(t))
	owner, _ := take(t, d, "k", time.Hour)
	other := New(raw(t, d.path), nil)
	defer other.Close()
	if r, _ := ask(t, other, "k", ""); r.Acquired {
		t.Error("two hold the key")
	}
	release(t, other, "k", owner)
	if l, err := d.Limits(); err != nil || l.Store != "sqlite:"+d.path {
		t.Error(l, err)
	}
}
