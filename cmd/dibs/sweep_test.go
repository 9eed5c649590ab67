//go:build linux

package main_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

func (b *bed) oldRows(n int) {
	b.t.Helper()
	var values []string
	for i := range n {
		values = append(values, fmt.Sprintf("('old%06d', 1, '1970-01-01', UTC_TIMESTAMP(6) - INTERVAL 1 HOUR, 0)", i))
	}
	b.exec(b.admin, "INSERT INTO dibs_leases (lock_key, fence, expires, since, is_open) VALUES "+strings.Join(values, ", "))
}

func (b *bed) rows() (n int) {
	b.t.Helper()
	if err := b.admin.QueryRow("SELECT COUNT(*) FROM dibs_leases").Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

func TestSweep(t *testing.T) {
	onServers(t, func(t *testing.T, b *bed) {
		r := b.sleeper("--ttl", "30")
		b.start("run", "new", "--", "true").want(0)
		b.oldRows(70)
		if status, out, stderr := b.run("sweep"); status != 0 || stderr != "" || !strings.HasPrefix(out, "removed 70 rows in ") {
			t.Errorf("%d, %q, %s", status, out, stderr)
		}
		if n := b.rows(); n != 2 {
			t.Errorf("%d rows are left", n)
		}
		if status, out, stderr := b.run("sweep"); status != 0 || stderr != "" || !strings.HasPrefix(out, "removed 0 rows in ") {
			t.Errorf("%d, %q, %s", status, out, stderr)
		}
		b.oldRows(1)
		status, out, stderr := b.run("sweep", "--retention", "59m", "--json")
		var got map[string]any
		if err := json.Unmarshal([]byte(out), &got); err != nil || status != 0 || stderr != "" {
			t.Fatalf("%d, %q, %s, %v", status, out, stderr, err)
		}
		if got["removed"] != 1.0 || got["by_itself"] != false || got["retention_seconds"] != 3540.0 || got["lag_seconds"].(float64) < 59 ||
			got["took_seconds"].(float64) <= 0 || len(got) != 5 {
			t.Errorf("%v", got)
		}
		b.oldRows(1)
		if _, out, _ := b.run("sweep", "--retention", "2h"); !strings.HasPrefix(out, "removed 0 rows") {
			t.Error(out)
		}
		r.signal(syscall.SIGTERM)
		r.want(143)
		b.connectionsEnd()
	})
}

func TestSweepOnSQLite(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if status, out, stderr := b.run("sweep"); status != 0 || stderr != "" || !strings.Contains(out, "by itself") || !strings.Contains(out, "locks.db") {
		t.Errorf("%d, %q, %s", status, out, stderr)
	}
	if status, out, _ := b.run("sweep", "--json"); status != 0 || !strings.Contains(out, `"by_itself": true`) {
		t.Errorf("%d, %q", status, out)
	}
	for args, part := range map[string]string{
		"sweep x": "no arguments", "sweep --retention 10": "--retention is 10s", "sweep --retention 0": "give it a minute", "sweep --retention soon": "--retention",
	} {
		b.start(strings.Fields(args)...).want(64, part)
	}
}

// What is wrong is one line, and nothing is left of the pass.
func TestSweepCannot(t *testing.T) {
	onServers(t, func(t *testing.T, b *bed) {
		b.start("run", "new", "--", "true").want(0)
		b.oldRows(3)
		b.exec(b.admin, fmt.Sprintf("UPDATE dibs_meta SET value = %d WHERE name = 'sweep'", time.Now().Add(10*time.Second).UnixMicro()))
		b.start("sweep").want(75, "another process is removing old rows", b.named)
		b.exec(b.admin, "UPDATE dibs_meta SET value = 0 WHERE name = 'sweep'")

		b.bare()
		b.initTables()
		a := b.user()
		b.store = b.url(a, b.wire.addr, "")
		b.exec(b.admin, fmt.Sprintf("GRANT SELECT, INSERT, UPDATE ON %s.dibs_leases TO %s@'%%'", b.database, a.User))
		b.exec(b.admin, fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %s.dibs_meta TO %s@'%%'", b.database, a.User))
		b.oldRows(3)
		b.unusable([]string{"sweep"}, "SELECT, INSERT, UPDATE and DELETE")
		if n := b.rows(); n != 3 {
			t.Errorf("%d rows are left", n)
		}
		b.exec(b.admin, fmt.Sprintf("GRANT DELETE ON %s.dibs_leases TO %s@'%%'", b.database, a.User))
		if status, out, stderr := b.run("sweep"); status != 0 || !strings.HasPrefix(out, "removed 3 rows") {
			t.Errorf("%d, %q, %s", status, out, stderr)
		}
		b.connectionsEnd()
	})
}

// A signal ends the pass at once, and the next one can begin.
func TestSweepIsEnded(t *testing.T) {
	onServers(t, func(t *testing.T, b *bed) {
		const rows = 40_000
		for range rows / 1000 {
			b.oldRows(1000)
			b.exec(b.admin, "UPDATE dibs_leases SET lock_key = CONCAT(UUID(), lock_key) WHERE lock_key LIKE 'old%'")
		}
		// As under nohup, whose point is that HUP ends nothing.
		immune := b.command("sweep")
		immune.cmd.Path, immune.cmd.Args = "/bin/sh", append([]string{"sh", "-c", `trap '' HUP; exec "$0" "$@"`, binary}, immune.cmd.Args[1:]...)
		immune.start()
		b.must("it sweeps under nohup", func() bool { return b.rows() < rows })
		immune.signal(syscall.SIGHUP)
		told := b.rows()
		b.must("it goes on", func() bool { return b.rows() < told-200 })
		immune.signal(syscall.SIGTERM)
		immune.want(143, "ended by terminated")
		b.start("sweep", "--retention", "2h").want(0) // its turn was given back

		begin := b.rows()
		hung := b.start("sweep")
		b.must("it sweeps", func() bool { return b.rows() < begin })
		hung.signal(syscall.SIGQUIT)
		hung.want(131, "ended by quit", "removed")

		before := b.rows()
		r := b.start("sweep")
		b.must("it sweeps", func() bool { return b.rows() < before })
		r.signal(syscall.SIGTERM)
		r.want(143, "ended by terminated", "removed")
		left := b.rows()
		next := b.start("sweep")
		b.must("the next one goes on", func() bool { return b.rows() < left })
		next.signal(syscall.SIGINT)
		next.want(130, "ended by interrupt")
		b.connectionsEnd()
	})
}
