package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/testenv"
	"github.com/go-sql-driver/mysql"
)

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(&mysql.NopLogger{}) // it reports each connection that the tests break
	if role := os.Getenv(helperRole); role != "" {
		os.Exit(runHelper(role))
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set("test.parallel", "6") // they mostly wait
	}
	os.Exit(testenv.Main(m))
}

// bed is a database of its own on a server.
type bed struct {
	*testenv.Server
	database string
	admin    *sql.DB
	mysql    bool
}

// kinds are the servers that everything here is tested on.
var kinds = []struct {
	name   string
	shared func(testing.TB) *testenv.Server
	alone  func(testing.TB, ...string) *testenv.Server
}{
	{"mysql", testenv.MySQL, testenv.StartMySQL},
	{"mariadb", testenv.MariaDB, testenv.StartMariaDB},
}

// onBoth runs a test on each server, in a database with our tables.
func onBoth(t *testing.T, f func(t *testing.T, b *bed)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) { f(t, newBed(t, k.shared(t), true)) })
	}
}

// onBothAlone gives each its own server, which may be killed.
func onBothAlone(t *testing.T, flags []string, f func(t *testing.T, b *bed)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) { f(t, newBed(t, k.alone(t, flags...), true)) })
	}
}

var databases atomic.Int64

func newBed(t testing.TB, s *testenv.Server, tables bool) *bed {
	t.Helper()
	b := &bed{Server: s, database: fmt.Sprintf("%s%d_%d", testenv.DatabasePrefix, os.Getpid(), databases.Add(1)), mysql: s.Kind == "mysql"}
	root := b.open(t, s.Admin, "", "")
	if !s.Own() {
		for _, statement := range testenv.SetupSQL() {
			b.must(t, root, statement)
		}
	}
	b.must(t, root, "CREATE DATABASE "+b.database)
	t.Cleanup(func() { _, _ = root.Exec("DROP DATABASE " + b.database) })
	b.admin = b.open(t, s.Admin, b.database, "")
	if tables {
		d := New(b.admin, nil)
		if err := d.CreateTables(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *bed) dsn(a testenv.Account, database, params string) string {
	return fmt.Sprintf("%s:%s@tcp(%s)/%s?%s", a.User, a.Password, b.Addr, database, params)
}

func (b *bed) open(t testing.TB, a testenv.Account, database, params string) *sql.DB {
	t.Helper()
	return opened(t, b.dsn(a, database, params))
}

func opened(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// pool is the application's, with its rights.
func (b *bed) pool(t testing.TB, params string) *sql.DB {
	t.Helper()
	return b.open(t, b.App, b.database, params)
}

func (b *bed) driver(t testing.TB, params string) *Driver {
	t.Helper()
	return drive(t, b.pool(t, params))
}

func drive(t testing.TB, db *sql.DB) *Driver {
	t.Helper()
	d := New(db, nil)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (b *bed) must(t testing.TB, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, statement string, args ...any) {
	t.Helper()
	// Not the test's context: it has ended when cleaning up.
	if _, err := db.ExecContext(context.Background(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func (b *bed) number(t testing.TB, query string, args ...any) (n int64) {
	t.Helper()
	err := b.admin.QueryRow(query, args...).Scan(&n)
	for errors.Is(err, mysql.ErrInvalidConn) { // one that the pool had before the server was killed
		err = b.admin.QueryRow(query, args...).Scan(&n)
	}
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// peek reads a row with SQL of its own.
func (b *bed) peek(t testing.TB, key string) (token int64, owner string, left time.Duration) {
	t.Helper()
	var o sql.NullString
	var us int64
	err := b.admin.QueryRow("SELECT fence, owner, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires) FROM dibs_leases WHERE lock_key = ?", []byte(key)).
		Scan(&token, &o, &us)
	if err != nil && err != sql.ErrNoRows {
		t.Fatal(err)
	}
	return token, o.String, time.Duration(us) * time.Microsecond
}

// lockRow lets a stranger lock a key's row until unlock.
func (b *bed) lockRow(t testing.TB, key string) (unlock func()) {
	t.Helper()
	tx, err := b.admin.Begin()
	if err != nil {
		t.Fatal(err)
	}
	var one int
	if err := tx.QueryRow("SELECT 1 FROM dibs_leases WHERE lock_key = ? FOR UPDATE", []byte(key)).Scan(&one); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
}

// threads counts the server's threads of the application that are in the middle of a statement.
func (b *bed) threads(t testing.TB) int64 {
	t.Helper()
	return b.number(t, "SELECT COUNT(*) FROM information_schema.processlist WHERE user = ? AND db = ? AND command <> 'Sleep'", b.App.User, b.database)
}

func newOwner() string {
	const letters = "0123456789abcdefghijklmnopqrstuv"
	var s strings.Builder
	for range dibsdriver.OwnerLen {
		s.WriteByte(letters[rand.IntN(len(letters))])
	}
	return s.String()
}

func params(key string, ttl time.Duration) dibsdriver.AcquireParams {
	return dibsdriver.AcquireParams{Key: key, Owner: newOwner(), TTL: ttl, Holder: "a holder 🔒", Note: "a note"}
}

// take acquires a key that is free.
func take(t testing.TB, d *Driver, key string, ttl time.Duration) (owner string, token int64) {
	t.Helper()
	p := params(key, ttl)
	r, err := d.Acquire(within(t), p)
	if err != nil || !r.Acquired {
		t.Fatalf("acquiring %q: %+v, %v", key, r, err)
	}
	return p.Owner, r.Token
}

// refusedBy requires that the key is held by another.
func refusedBy(t testing.TB, d *Driver, key string) dibsdriver.Record {
	t.Helper()
	r, err := d.Acquire(within(t), params(key, time.Minute))
	if err != nil || r.Acquired || r.Holder.Token == 0 {
		t.Fatalf("acquiring %q, which is held: %+v, %v", key, r, err)
	}
	return r.Holder
}

func release(t testing.TB, d *Driver, key, owner string) {
	t.Helper()
	if err := d.Release(within(t), dibsdriver.ReleaseParams{Key: key, Owner: owner}); err != nil {
		t.Fatalf("releasing %q: %v", key, err)
	}
}

func renewed(t testing.TB, d *Driver, want dibsdriver.RenewAnswer, key, owner string, ttl time.Duration) {
	t.Helper()
	answers, err := d.Renew(within(t), []dibsdriver.Renewal{{Key: key, Owner: owner, TTL: ttl}})
	if err != nil || len(answers) != 1 || answers[0] != want {
		t.Fatalf("renewing %q: %v, %v, want %v", key, answers, err, want)
	}
}

func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	limit := time.Now().Add(10 * time.Second)
	for pause := 2 * time.Millisecond; !f(); pause = min(pause*5/4, 25*time.Millisecond) { // each look is work for a busy machine
		if time.Now().After(limit) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(pause)
	}
}

// within bounds a call that should end by itself much sooner.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	t.Cleanup(cancel)
	return ctx
}
