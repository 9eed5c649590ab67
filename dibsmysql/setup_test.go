package dibsmysql

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/testenv"
)

// isRefused requires an error that says what to do, for each way in, and no trace of a password.
func isRefused(t *testing.T, d *Driver, says string) {
	t.Helper()
	_, acquire := d.Acquire(within(t), params("k", time.Minute))
	for what, err := range map[string]error{"ping": d.Ping(within(t)), "acquire": acquire} {
		switch {
		case err == nil:
			t.Errorf("%s: no error", what)
		case !errors.Is(err, dibsdriver.ErrRefused) || !errors.Is(err, dibsdriver.ErrUnavailable) || dibsdriver.FateOf(err) != dibsdriver.FateNotApplied:
			t.Errorf("%s: %v, fate %v", what, err, dibsdriver.FateOf(err))
		case !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2"):
			t.Errorf("%s: %v, which does not say %q", what, err, says)
		}
	}
}

// TestTables: each thing that may be wrong with the tables is found, at Ping and at the first use, before it does harm. (Facts 20, 44; B38.)
func TestFact20_44_Tables(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, change, says string }{
		{"no tables", "DROP TABLE dibs_leases, dibs_meta", "dibs init"},
		{"no leases", "DROP TABLE dibs_leases", "dibs init"},
		{"no version", "DELETE FROM dibs_meta", "schema_version"},
		{"newer version", "UPDATE dibs_meta SET value = 2 WHERE name = 'schema_version'", "update dibs"},
		{"auto increment", "ALTER TABLE dibs_leases ADD COLUMN id BIGINT NOT NULL AUTO_INCREMENT, ADD KEY (id)", "AUTO_INCREMENT"},
		{"text key", "ALTER TABLE dibs_leases MODIFY lock_key VARCHAR(255) NOT NULL", "VARBINARY"},
		{"short key", "ALTER TABLE dibs_leases MODIFY lock_key VARBINARY(64) NOT NULL", "255"},
		{"times rounded", "ALTER TABLE dibs_leases MODIFY expires DATETIME NOT NULL", "DATETIME(6)"},
		{"times in milliseconds", "ALTER TABLE dibs_leases MODIFY since DATETIME(3) NOT NULL", "DATETIME(6)"},
		{"times in a zone", "ALTER TABLE dibs_leases MODIFY expires TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)", "datetime"},
		{"other primary key", "ALTER TABLE dibs_leases DROP PRIMARY KEY, ADD PRIMARY KEY (lock_key, fence)", "primary key"},
		{"no primary key", "ALTER TABLE dibs_leases DROP PRIMARY KEY, ADD KEY (lock_key)", "primary key"},
		{"small tokens", "ALTER TABLE dibs_leases MODIFY fence INT NOT NULL", "bigint"},
		{"a column missing", "ALTER TABLE dibs_leases DROP COLUMN note", "note"},
		{"other engine", "ALTER TABLE dibs_leases ENGINE=MyISAM", "InnoDB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, b *bed) {
				b.must(t, b.admin, c.change)
				says := c.says
				if says == "VARBINARY" || says == "datetime" {
					says = strings.ToLower(says)
				}
				isRefused(t, b.driver(t, ""), says)
			})
		})
	}
}

// TestRights: Ping finds each right that is missing; with the four, everything works, which all other tests show.
func TestRights(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		b.must(t, b.admin, "CREATE DATABASE x"+b.database) // on which the application has no right yet
		t.Cleanup(func() { b.must(t, b.admin, "DROP DATABASE x"+b.database) })
		db := b.open(t, b.Admin, "x"+b.database, "")
		if err := drive(t, db).CreateTables(within(t)); err != nil {
			t.Fatal(err)
		}
		user := "u" + b.database[len(testenv.DatabasePrefix):]
		b.must(t, b.admin, "CREATE USER "+user+"@'%' IDENTIFIED BY 'hunter2'")
		t.Cleanup(func() { b.must(t, b.admin, "DROP USER "+user+"@'%'") })
		account := testenv.Account{User: user, Password: "hunter2"}
		all := []string{"SELECT", "INSERT", "UPDATE", "DELETE"}
		grant := func(rights []string) {
			for _, table := range []string{"leases", "meta"} {
				b.must(t, b.admin, fmt.Sprintf("GRANT %s ON x%s.dibs_%s TO %s@'%%'", strings.Join(rights, ", "), b.database, table, user))
			}
		}
		grant(all)
		d := drive(t, b.open(t, account, "x"+b.database, ""))
		if err := d.Ping(within(t)); err != nil {
			t.Fatal(err)
		}
		exercise(t, "k", d, drive(t, b.open(t, account, "x"+b.database, "")))
		if err := d.CreateTables(within(t)); err == nil || !errors.Is(err, dibsdriver.ErrRefused) || !strings.Contains(err.Error(), "--print") {
			t.Errorf("creating tables without the right: %v", err)
		}
		for _, without := range all {
			for _, table := range []string{"leases", "meta"} {
				if table == "meta" && (without == "INSERT" || without == "DELETE") {
					continue // not needed
				}
				b.must(t, b.admin, fmt.Sprintf("REVOKE %s ON x%s.dibs_%s FROM %s@'%%'", without, b.database, table, user))
				err := d.Ping(within(t))
				if err == nil || !errors.Is(err, dibsdriver.ErrRefused) || !strings.Contains(err.Error(), "SELECT, INSERT, UPDATE and DELETE") {
					t.Errorf("without %s on %s: %v", without, table, err)
				}
				grant(all)
			}
		}
	})
}

// TestDSN: what is wrong with an address is said, without the password.
func TestDSN(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		secret := testenv.Account{User: b.App.User, Password: "hunter2"}
		isRefused(t, drive(t, b.open(t, secret, b.database, "")), "user and password")
		isRefused(t, drive(t, b.open(t, b.App, testenv.DatabasePrefix+"none", "")), "database")
		isRefused(t, drive(t, b.open(t, b.App, "mysql", "")), "database")
		isRefused(t, drive(t, b.open(t, b.App, "", "")), "DSN names no database")
		isRefused(t, b.driver(t, "autocommit=0"), "autocommit=0")
		tls := "certificate" // MySQL has made one for itself
		if !b.mysql {
			tls = "TLS"
		}
		isRefused(t, b.driver(t, "tls=true"), tls)

		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		for _, addr := range []string{l.Addr().String(), "no-such-host.invalid:3306"} {
			d := drive(t, opened(t, fmt.Sprintf("u:hunter2@tcp(%s)/db", addr)))
			_, err := d.Acquire(within(t), params("k", time.Minute))
			if !errors.Is(err, dibsdriver.ErrUnavailable) || errors.Is(err, dibsdriver.ErrRefused) || dibsdriver.FateOf(err) != dibsdriver.FateNotApplied ||
				!strings.Contains(err.Error(), "host and port") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %v", addr, err)
			}
		}
	})
}

// TestConfig: what can be known without asking the server is known at once.
func TestConfig(t *testing.T) {
	small := opened(t, "u@tcp(127.0.0.1:1)/db")
	small.SetMaxOpenConns(1)
	fine := opened(t, "u@tcp(127.0.0.1:1)/db")
	for _, c := range []struct {
		db   *sql.DB
		cfg  *Config
		says string
	}{
		{nil, nil, "nil *sql.DB"},
		{small, nil, "SetMaxOpenConns"},
		{fine, &Config{TablePrefix: "Dibs_"}, "lower-case"},
		{fine, &Config{TablePrefix: "a`b"}, "lower-case"},
		{fine, &Config{TablePrefix: strings.Repeat("x", 41)}, "40"},
	} {
		d := New(c.db, c.cfg)
		_, limits := d.Limits()
		_, locker := dibs.New(d, nil)
		for what, err := range map[string]error{"limits": limits, "dibs.New": locker, "ping": d.Ping(t.Context())} {
			if !errors.Is(err, dibsdriver.ErrRefused) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, which does not say %q", what, err, c.says)
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCreateTables: twenty processes at once, with another prefix; and what is there stays.
func TestCreateTables(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		cfg := &Config{TablePrefix: "app_locks_"}
		isRefused(t, New(b.admin, cfg), "dibs init")
		for range 2 {
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					d := New(b.admin, cfg)
					if err := d.CreateTables(within(t)); err != nil {
						t.Error(err)
					}
					if err := d.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		d := New(b.pool(t, ""), cfg)
		defer d.Close()
		owner, token := take(t, d, "k", time.Minute)
		if err := d.Ping(within(t)); err != nil {
			t.Error(err)
		}
		// Other tables, other locks.
		take(t, b.driver(t, ""), "k", time.Minute)
		if err := New(b.admin, cfg).CreateTables(within(t)); err != nil {
			t.Error(err)
		}
		if n := b.number(t, "SELECT fence FROM app_locks_leases WHERE lock_key = 'k'"); n != token {
			t.Errorf("token %d, then %d", token, n)
		}
		release(t, d, "k", owner)
	})
}

// TestTokens: floors, those of the process and those of the table; and none above the largest.
func TestTokens(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		b.must(t, b.admin, "UPDATE dibs_meta SET value = ? WHERE name = 'token_floor'", int64(1)<<51)
		d := b.driver(t, "")
		owner, token := take(t, d, "k", time.Minute)
		if token != 1<<51+dibsdriver.TokenStep {
			t.Errorf("token %d", token)
		}
		release(t, d, "k", owner)
		p := params("k", time.Minute)
		p.Floor = dibsdriver.MaxToken - dibsdriver.TokenStep
		r, err := d.Acquire(within(t), p)
		if err != nil || r.Token != dibsdriver.MaxToken {
			t.Error(r, err)
		}
		release(t, d, "k", p.Owner)
		for _, p := range []dibsdriver.AcquireParams{params("k", time.Minute), {Key: "new", Owner: newOwner(), TTL: time.Minute, Floor: p.Floor + 1}} {
			r, err := d.Acquire(within(t), p)
			if r.Acquired || !errors.Is(err, dibsdriver.ErrRefused) || dibsdriver.FateOf(err) == dibsdriver.FateUnknown {
				t.Errorf("%+v, %v, fate %v", r, err, dibsdriver.FateOf(err))
			}
			if _, owner, left := b.peek(t, p.Key); owner != "" && left > 0 {
				t.Errorf("owned by %s", owner)
			}
		}
	})
}
