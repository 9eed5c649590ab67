package dibsmysql

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/testenv"
)

// examined is what a driver finds, with what must hold of every examination.
func examined(t *testing.T, d *Driver) []dibsdriver.Finding {
	t.Helper()
	return examinedAt(t, d, time.Now)
}

func examinedAt(t *testing.T, d *Driver, now func() time.Time) []dibsdriver.Finding {
	t.Helper()
	began := time.Now()
	found := d.examine(t.Context(), now)
	if took := time.Since(began); took > 2*examineLimit {
		t.Errorf("it took %s", took)
	}
	sound(t, found)
	return found
}

// sound requires what holds of all findings: they say something, what is wrong comes with advice, and a password is never shown.
func sound(t *testing.T, found []dibsdriver.Finding) {
	t.Helper()
	if len(found) == 0 {
		t.Error("nothing was found")
	}
	for _, f := range found {
		switch text := f.Found + f.Advice; {
		case f.Check == "" || f.Found == "" || strings.Contains(text, "secret") || strings.Contains(text, "hunter2") || strings.Contains(text, "%!") || strings.Contains(text, "dibs: "):
			t.Errorf("%+v", f)
		case (f.Advice == "") != (f.Level == dibsdriver.LevelOK):
			t.Errorf("advice is for what is wrong: %+v", f)
		}
	}
}

// wantFinding requires a finding whose texts have all these parts.
func wantFinding(t *testing.T, found []dibsdriver.Finding, check string, level dibsdriver.Level, parts ...string) {
	t.Helper()
	if !slices.ContainsFunc(found, func(f dibsdriver.Finding) bool {
		return f.Check == check && f.Level == level && !slices.ContainsFunc(parts, func(p string) bool {
			return !strings.Contains(strings.ToLower(f.Found+"; "+f.Advice), strings.ToLower(p))
		})
	}) {
		t.Errorf("no %s of %q with %q in\n%s", level, check, parts, listed(found))
	}
}

// onlyFaults requires that nothing else than these checks has a fault.
func onlyFaults(t *testing.T, found []dibsdriver.Finding, checks ...string) {
	t.Helper()
	for _, f := range found {
		if f.Level == dibsdriver.LevelFault && !slices.Contains(checks, f.Check) {
			t.Errorf("not expected: %+v", f)
		}
	}
}

func listed(found []dibsdriver.Finding) string {
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "%s %s: %s [%s]\n", f.Level, f.Check, f.Found, f.Advice)
	}
	return b.String()
}

const (
	isOK      = dibsdriver.LevelOK
	isWarning = dibsdriver.LevelWarning
	isFault   = dibsdriver.LevelFault
)

// TestDoctorHealthy: a server as it should be, and a user with the smallest rights. Each check says something, nothing is changed, and nobody's row is waited for.
func TestDoctorHealthy(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		owner, _ := take(t, d, "k", time.Minute)
		content := "SELECT SUM(CRC32(CONCAT_WS('/', lock_key, fence, owner, expires, since, is_open, holder, note))) FROM dibs_leases"
		before := b.number(t, content)
		unlock := b.lockRow(t, "k")
		began := time.Now()
		found := examined(t, b.driver(t, ""))
		if took := time.Since(began); took > examineLimit {
			t.Errorf("it took %s: it has waited", took)
		}
		unlock()
		if b.number(t, content) != before {
			t.Error("it has changed something")
		}
		release(t, d, "k", owner)
		for _, check := range []string{checkConnection, checkVersion, checkDatabase, checkAutocommit, checkWrites, checkCluster, checkAddress, checkClock, checkTimeZone,
			checkMode, checkIsolation, checkSnapshot, checkIdle, checkRollback, checkStatement, checkBinaryLog, checkConnections, checkTables, checkRights, checkRows} {
			wantFinding(t, found, check, isOK)
		}
		for _, f := range found {
			// The test's servers are quick rather than durable, and the application's user may not ask for replication.
			if f.Level != isOK && f.Check != checkReplica && f.Check != checkDurability {
				t.Errorf("not expected: %+v", f)
			}
		}
		wantFinding(t, found, checkReplica, isWarning, "not told to this user")
		wantFinding(t, found, checkDurability, isWarning, "innodb_flush_log_at_trx_commit is 2")
		wantFinding(t, examined(t, drive(t, b.admin)), checkReplica, isOK, "no replica")
	})
}

// TestDoctorUnreachable: what ends an examination is its only finding, and says what to do.
func TestDoctorUnreachable(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		closed := b.driver(t, "")
		if err := closed.Close(); err != nil {
			t.Fatal(err)
		}
		small := b.pool(t, "")
		small.SetMaxOpenConns(1)
		stranger := testenv.Account{User: b.App.User, Password: "secret"}
		for _, c := range []struct {
			name, check string
			d           *Driver
			parts       []string
		}{
			{"nobody listens", checkConnection, drive(t, opened(t, "u:secret@tcp("+l.Addr().String()+")/db")), []string{"cannot be reached", "host and port", "connection refused"}},
			{"no such host", checkConnection, drive(t, opened(t, "u:secret@tcp(no-such-host.invalid:3306)/db")), []string{"cannot be reached", "host and port"}},
			{"password", checkConnection, drive(t, b.open(t, stranger, b.database, "")), []string{"user and password", "Access denied"}},
			{"database", checkConnection, drive(t, b.open(t, b.App, testenv.DatabasePrefix+"none", "")), []string{"database is not there", "create it"}},
			{"parameter", checkConnection, b.driver(t, "no_such_variable=1"), []string{"spelling", "no_such_variable"}},
			{"closed", checkConfig, closed, []string{"closed"}},
			{"pool", checkConfig, New(small, nil), []string{"SetMaxOpenConns"}},
		} {
			found := c.d.Examine(within(t))
			if len(found) != 1 {
				t.Errorf("%s: %s", c.name, listed(found))
			}
			sound(t, found)
			wantFinding(t, found, c.check, isFault, c.parts...)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		wantFinding(t, b.driver(t, "").Examine(ended), checkConfig, isFault, "the context ended")
	})
}

// TestDoctorFrozen: a server that says nothing any more does not hold an examination up for long.
func TestDoctorFrozen(t *testing.T) {
	t.Parallel()
	onBothAlone(t, nil, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		if err := d.Ping(within(t)); err != nil {
			t.Fatal(err)
		}
		b.Freeze(t)
		found := examined(t, d)
		b.Thaw(t)
		// A process of many threads may go on for a moment after it was told to stop, so what was asked first may have been answered.
		last := found[len(found)-1]
		wantFinding(t, found[len(found)-1:], last.Check, isFault, "the context ended first", "whether the server hangs")
		onlyFaults(t, found[:len(found)-1])
		if strings.Contains(listed(found), checkTables) {
			t.Errorf("it went on: %s", listed(found))
		}
		onlyFaults(t, examined(t, d))
	})
}

// TestDoctorDSN: what stands in the DSN counts, and one fault does not hide the others.
func TestDoctorDSN(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		isolation, readOnly := "transaction_isolation", "transaction_read_only"
		if !b.mysql {
			isolation, readOnly = "tx_isolation", "tx_read_only"
		}
		type finding struct {
			params, check string
			level         dibsdriver.Level
			parts         []string
		}
		cases := []finding{
			{"autocommit=0", checkAutocommit, isFault, []string{"nobody else would see a lock", "take autocommit=0 out"}},
			{readOnly + "=1", checkWrites, isFault, []string{readOnly, "no lock can be taken"}},
			{"timestamp=1700000000", checkClock, isFault, []string{"behind", "timestamp="}},
			{"time_zone='-11:00'", checkTimeZone, isOK, []string{"-11:00", "no difference"}},
			{"sql_mode='ANSI,NO_BACKSLASH_ESCAPES'", checkMode, isOK, []string{"ANSI", "every mode"}},
			{"sql_mode=''", checkMode, isOK, []string{"none"}},
			{isolation + "='SERIALIZABLE'", checkIsolation, isOK, []string{"SERIALIZABLE"}},
			{"wait_timeout=59", checkIdle, isWarning, []string{"59 s", "raise it"}},
			{"wait_timeout=60", checkIdle, isOK, []string{"60 s"}},
			{"sql_select_limit=500", checkStatement, isFault, []string{"sql_select_limit is 500"}},
			{"sql_select_limit=501", checkStatement, isWarning, []string{"sql_select_limit is 501"}},
			{"innodb_lock_wait_timeout=7", checkRollback, isOK, []string{"after 7 s"}},
		}
		if b.mysql {
			cases = append(cases, finding{"max_execution_time=9000", checkStatement, isWarning, []string{"9000 ms"}},
				finding{"max_execution_time=10000", checkStatement, isOK, nil},
				finding{"", checkSnapshot, isOK, []string{"does not have it"}})
		} else {
			cases = append(cases, finding{"max_statement_time=9", checkStatement, isWarning, []string{"9 s"}},
				finding{"max_statement_time=10", checkStatement, isOK, nil},
				finding{"idle_transaction_timeout=5", checkIdle, isWarning, []string{"idle_transaction_timeout is 5 s"}},
				finding{"innodb_snapshot_isolation=1", checkSnapshot, isWarning, []string{"REPEATABLE-READ", "InTx"}},
				finding{"innodb_snapshot_isolation=1&tx_isolation='READ-COMMITTED'", checkSnapshot, isOK, []string{"on"}},
				finding{"innodb_snapshot_isolation=0", checkSnapshot, isOK, []string{"off"}})
		}
		for _, c := range cases {
			found := examined(t, b.driver(t, strings.ReplaceAll(c.params, "'", "%27")))
			wantFinding(t, found, c.check, c.level, c.parts...)
			if c.level != isFault {
				c.check = ""
			}
			if readOnly+"=1" != c.params {
				onlyFaults(t, found, c.check)
			}
			if t.Failed() {
				t.Fatalf("with %s", c.params)
			}
		}
		found := examined(t, b.driver(t, "autocommit=0&wait_timeout=5&timestamp=1700000000"))
		for _, check := range []string{checkAutocommit, checkClock} {
			wantFinding(t, found, check, isFault)
		}
		wantFinding(t, found, checkIdle, isWarning)
		found = examined(t, drive(t, b.open(t, b.App, "", "")))
		wantFinding(t, found, checkDatabase, isFault, "names no database", "add one")
		onlyFaults(t, found, checkDatabase)
		wantFinding(t, found, checkClock, isOK)
	})
}

// TestDoctorClock: the clocks are compared in both directions.
func TestDoctorClock(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		for _, c := range []struct {
			here  time.Duration // this machine's clock
			level dibsdriver.Level
			parts []string
		}{
			{0, isOK, []string{"agree within"}},
			{900 * time.Millisecond, isOK, nil}, {-900 * time.Millisecond, isOK, nil},
			{95 * time.Second, isWarning, []string{"1m3", "behind"}}, {-95 * time.Second, isWarning, []string{"1m3", "ahead of"}},
			{61 * time.Minute, isFault, []string{"1h", "behind", "NTP"}}, {-61 * time.Minute, isFault, []string{"1h", "ahead of", "NTP"}},
		} {
			found := examinedAt(t, d, func() time.Time { return time.Now().Add(c.here) })
			wantFinding(t, found, checkClock, c.level, c.parts...)
			if c.level != isFault {
				onlyFaults(t, found)
			}
		}
	})
}

// TestDoctorAddress: an address that leads to one server now and to another then.
func TestDoctorAddress(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		other := kinds[0]
		if b.mysql {
			other = kinds[1]
		}
		o := newBed(t, other.shared(t), false)
		b.must(t, o.admin, "CREATE DATABASE IF NOT EXISTS "+b.database)
		t.Cleanup(func() { b.must(t, o.admin, "DROP DATABASE "+b.database) })
		d := drive(t, alternating(t, b.dsn(b.App, b.database, ""), b.Addr, o.Addr))
		found := examined(t, d)
		wantFinding(t, found, checkAddress, isFault, "different servers", ":"+port(b.Addr)+",", ":"+port(o.Addr)+",")
	})
}

func port(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}

// alternating is a pool whose connections go to one address and the other in turn.
func alternating(t *testing.T, dsn string, addrs ...string) *sql.DB {
	t.Helper()
	db := sql.OpenDB(&turns{t: t, dsn: dsn, addrs: addrs})
	t.Cleanup(func() { db.Close() })
	return db
}
