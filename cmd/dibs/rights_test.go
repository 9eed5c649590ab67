//go:build linux

package main_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/dibs-go/dibs/internal/testenv"
)

// user makes an account that has no right yet. Its password must not be seen anywhere.
func (b *bed) user() testenv.Account {
	b.t.Helper()
	a := testenv.Account{User: "u" + strings.TrimPrefix(b.database, testenv.DatabasePrefix), Password: "hunter2"}
	admin := b.admin
	b.exec(admin, "CREATE USER "+a.User+"@'%' IDENTIFIED BY 'hunter2'")
	user := a.User
	b.t.Cleanup(func() { b.exec(admin, "DROP USER "+user+"@'%'") })
	return a
}

// bare moves the bed to a database on which no account but the admin's has a right, without tables.
func (b *bed) bare() {
	b.t.Helper()
	admin, database := b.admin, "x"+b.database
	b.exec(admin, "CREATE DATABASE "+database)
	b.t.Cleanup(func() { b.exec(admin, "DROP DATABASE "+database) })
	b.database = database
	b.admin = b.sql(b.Admin, b.database)
}

// The four rights on the two tables are enough for all that dibs does, but for making the tables; each that is missing is told.
func TestSmallestRights(t *testing.T) {
	onServers(t, func(t *testing.T, b *bed) {
		b.bare()
		b.initTables()
		a := b.user()
		b.store = b.url(a, b.wire.addr, "")
		rights := func(how, rights string) {
			for _, table := range []string{"leases", "meta"} {
				b.exec(b.admin, fmt.Sprintf("%s %s ON %s.dibs_%s %s %s@'%%'", how, rights, b.database, table, map[string]string{"GRANT": "TO", "REVOKE": "FROM"}[how], a.User))
			}
		}
		rights("GRANT", "SELECT, INSERT, UPDATE, DELETE")
		b.start("init").want(0) // there is nothing left to make
		r := b.sleeper("--ttl", "3", "--note", "why")
		if l := b.locks(); len(l) != 1 || l[0].Note != "why" {
			t.Errorf("%+v", l)
		}
		b.start("run", "-n", "k", "--", "true").want(75, "busy")
		next := b.start("run", "k", "--", "true")
		b.must("the next one waits", func() bool { return b.waiters() == 1 })
		if status, _, stderr := b.run("break", "--yes", "k"); status != 0 {
			t.Error(stderr)
		}
		r.want(80, "lock lost")
		next.want(0)
		for _, right := range []string{"SELECT", "INSERT", "UPDATE"} {
			rights("REVOKE", right)
			b.unusable([]string{"run", "k", "--", "touch", "marker"}, "SELECT, INSERT, UPDATE and DELETE")
			b.unusable([]string{"init"}, "SELECT, INSERT, UPDATE and DELETE")
			rights("GRANT", right)
		}
		b.start("run", "k", "--", "true").want(0)
		b.connectionsEnd()
	})
}

// unusable runs a dibs that cannot use its store.
func (b *bed) unusable(args []string, parts ...string) {
	b.t.Helper()
	b.refused(b.start(args...), parts...)
}

// refused is what a dibs must do that cannot use its store: say why, in one line, without a password, and run nothing.
func (b *bed) refused(r *running, parts ...string) {
	b.t.Helper()
	r.want(69, parts...)
	if strings.Contains(r.err.String()+r.out.String(), "hunter2") {
		b.t.Errorf("%q shows a password: %s", r.cmd.Args, r.err)
	}
	if b.exists("marker") {
		b.t.Errorf("%q has run its command", r.cmd.Args)
	}
}

// Whatever is wrong with server, address or rights is one line that says what to do.
func TestServerThatCannotBeUsed(t *testing.T) {
	onServers(t, func(t *testing.T, b *bed) {
		a := b.user()
		right, database := b.Addr, b.database
		dsn := func(account testenv.Account, addr, params string) string {
			return fmt.Sprintf("%s:%s@tcp(%s)/%s%s", account.User, account.Password, addr, b.database, params)
		}
		for _, c := range []struct {
			name   string
			before func()
			addr   string
			params string
			parts  []string
		}{
			{"no right", func() {}, right, "", []string{"database is not there", "grant the rights"}},
			{"no tables", func() {
				b.database = "x" + database
				b.exec(b.admin, "CREATE DATABASE "+b.database)
				b.t.Cleanup(func() { b.exec(b.admin, "DROP DATABASE x"+database) })
				b.exec(b.admin, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+b.database+".* TO "+a.User+"@'%'")
			}, right, "", []string{"dibs init"}},
			{"autocommit", func() {}, right, "?autocommit=0", []string{"take autocommit=0 out of the store's"}},
			{"unknown parameter", func() {}, right, "?no_such_variable=1", []string{"look at its spelling", "no_such_variable"}},
			{"unknown database", func() { b.database = "no_such_db" }, right, "", []string{"database is not there", "no_such_db"}},
			{"wrong password", func() { a.Password = "hunter2x" }, right, "", []string{"user and password in the store's"}},
			{"wrong user", func() { a.User = "nobody" }, right, "", []string{"user and password in the store's"}},
			{"wrong port", func() {}, closedAddr(t), "", []string{"host and port in the store's", "connection refused"}},
			{"wrong host", func() {}, "no-such-host.invalid:3306", "", []string{"host and port in the store's", "no-such-host.invalid"}},
		} {
			c.before()
			for _, store := range []string{b.url(a, c.addr, c.params), dsn(a, c.addr, c.params)} {
				b.store = store
				b.unusable([]string{"run", "k", "--", "touch", "marker"}, append(c.parts, "nothing was run")...)
				b.unusable([]string{"ls"}, c.parts...)
				b.unusable([]string{"break", "--yes", "k"}, c.parts...)
				init := c.parts
				if c.name == "no tables" {
					init = []string{"may not create tables", "--print"}
				}
				b.unusable([]string{"init"}, init...)
			}
			if t.Failed() {
				t.Fatal("with ", c.name)
			}
		}
		b.database = database
		b.connectionsEnd()
	})
}

// A password in argv is taken with a warning, whatever the form of the address; in no other place is one needed, and nowhere is it shown.
func TestPasswordsOfServers(t *testing.T) {
	onServers(t, func(t *testing.T, b *bed) {
		a := b.user()
		b.exec(b.admin, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+b.database+".* TO "+a.User+"@'%'")
		b.exec(b.admin, "ALTER USER "+a.User+"@'%' IDENTIFIED BY 'hunter2:/@?#%& \"'")
		url := b.Kind + "://" + a.User + ":hunter2%3A%2F%40%3F%23%25%26%20%22@" + b.wire.addr + "/" + b.database
		mixed := b.Kind + "://" + a.User + ":hunter2:/@?#%& \"@tcp(" + b.wire.addr + ")/" + b.database
		_, dsn, _ := strings.Cut(mixed, "://")
		for i, store := range []string{url, dsn, mixed} {
			r := b.start("run", "--store", store, "k", "--", "true")
			r.want(0, "the password in --store can be seen by everybody")
			b.start("run", "-q", "--store", store, "k", "--", "true").want(0)
			file := b.path("store" + itoa(i))
			if err := os.WriteFile(file, []byte(store+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			f := b.command(append([]string{"run", "--store-file", file, "k", "--"}, sh("pid"+itoa(i), "exec sleep 300")...)...)
			f.cmd.Env = []string{b.mark, "PATH=" + os.Getenv("PATH")}
			f.start()
			command := b.number("pid" + itoa(i))
			for _, pid := range []int{f.pid(), parent(command), command} {
				for _, what := range []string{"cmdline", "environ"} {
					if text, err := os.ReadFile("/proc/" + itoa(pid) + "/" + what); err != nil || strings.Contains(string(text), "hunter2") {
						t.Errorf("%s of process %d: %q, %v", what, pid, text, err)
					}
				}
			}
			busy := b.start("run", "-nq", "--store", store, "k", "--", "true")
			busy.want(75, b.database, "pid "+itoa(f.pid()))
			if text := busy.err.String() + r.err.String(); strings.Contains(text, "hunter2") {
				t.Errorf("it shows a password: %s", text)
			}
			f.signal(syscall.SIGTERM)
			f.want(143)
		}
	})
}

// Not beside other tests: twenty starts at once leave nothing of a small machine for them.
func TestInitOfManyAtOnce(t *testing.T) {
	for _, s := range []*testenv.Server{testenv.MySQL(t), testenv.MariaDB(t)} {
		b := newServedBed(t, s)
		b.bare()
		a := b.Admin
		b.store = b.url(a, b.wire.addr, "?table-prefix=app_locks_")
		b.unusable([]string{"run", "k", "--", "touch", "marker"}, "app_locks_", "dibs init")
		for range 2 { // what is there stays
			var wg sync.WaitGroup
			for range 20 {
				r := b.start("init")
				wg.Go(func() { r.want(0) })
			}
			wg.Wait()
		}
		if status, out, stderr := b.run("init"); status != 0 || !strings.Contains(out, b.database) || !strings.Contains(out, "is ready") || stderr != "" {
			t.Errorf("init: %d, %s%s", status, out, stderr)
		}
		b.start("run", "k", "--", "true").want(0)
		var n int
		if err := b.admin.QueryRow("SELECT COUNT(*) FROM app_locks_leases").Scan(&n); err != nil || n != 1 {
			t.Errorf("%d rows, %v", n, err)
		}
		// Other tables, other locks.
		b.store = b.url(a, b.wire.addr, "")
		b.unusable([]string{"ls"}, "dibs init")
		b.connectionsEnd()
	}
}

// The DDL is for those who run it with their own tools, and printing it takes no server.
func TestInitPrintsForServers(t *testing.T) {
	onServers(t, func(t *testing.T, b *bed) {
		b.bare()
		status, out, stderr := b.run("init", "--print", "--store", b.Kind+"://u@"+closedAddr(t)+"/none?table-prefix=my_")
		if status != 0 || stderr != "" {
			t.Fatalf("%d, %s", status, stderr)
		}
		db := b.sql(b.Admin, b.database)
		for statement := range strings.SplitSeq(out, ";\n") {
			if strings.TrimSpace(statement) != "" {
				b.exec(db, statement)
			}
		}
		b.store = b.url(b.Admin, b.wire.addr, "?table-prefix=my_")
		b.start("run", "k", "--", "true").want(0)
	})
}
