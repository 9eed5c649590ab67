package dibsdrivertest_test

import (
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/dibsdrivertest"
	"github.com/dibs-go/dibs/dibsmysql"
	"github.com/dibs-go/dibs/internal/testenv"
	"github.com/go-sql-driver/mysql"
)

var (
	mysqlStore   = dibsdrivertest.Factory{Name: "mysql", New: newMySQL(testenv.MySQL)}
	mariadbStore = dibsdrivertest.Factory{Name: "mariadb", New: newMySQL(testenv.MariaDB)}
)

func init() {
	openOther["mysql"] = openMySQL
	_ = mysql.SetLogger(&mysql.NopLogger{}) // it reports each connection that the tests break
}

func TestMySQL(t *testing.T)   { dibsdrivertest.Run(t, mysqlStore) }
func TestMariaDB(t *testing.T) { dibsdrivertest.Run(t, mariadbStore) }

// openMySQL opens the store of a mysql://user:password@host:port/database in a helper process, which ends without closing it.
func openMySQL(text string) (dibsdriver.Driver, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	password, _ := u.User.Password()
	db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)%s?%s", u.User.Username(), password, u.Host, u.Path, u.Query().Get(session)))
	if err != nil {
		return nil, err
	}
	cfg := new(dibsmysql.Config)
	if u.Query().Has(cleaning) {
		cfg.Sweep = &dibsmysql.SweepConfig{Retention: time.Second, Every: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
	}
	return &poolDriver{dibsmysql.New(db, cfg), db}, nil
}

// In a URL.
const (
	cleaning = "cleaning" // lets the driver remove old rows
	session  = "session"  // is what the DSN says besides
)

var mysqlDatabases atomic.Int64

func newMySQL(server func(testing.TB) *testenv.Server) func(testing.TB) dibsdrivertest.Store {
	return func(t testing.TB) dibsdrivertest.Store {
		t.Helper()
		s := server(t)
		root := openDB(t, s.Admin, s.Addr, "")
		if !s.Own() {
			for _, statement := range testenv.SetupSQL() {
				mustExec(t, root, statement)
			}
		}
		n := mysqlDatabases.Add(1)
		m := &mysqlDB{server: s, addr: s.Addr, name: fmt.Sprintf("%s%d_%d", testenv.DatabasePrefix, os.Getpid(), n), sessions: new(atomic.Int64)}
		m.sessions.Store(n) // which of the settings comes first
		mustExec(t, root, "CREATE DATABASE "+m.name)
		t.Cleanup(func() { mustExec(t, root, "DROP DATABASE "+m.name) })
		m.admin = openDB(t, s.Admin, s.Addr, m.name)
		d := dibsmysql.New(m.admin, nil)
		defer d.Close()
		if err := d.CreateTables(t.Context()); err != nil {
			t.Fatal(err)
		}
		return m
	}
}

func openDB(t testing.TB, a testenv.Account, addr, database string) *sql.DB {
	t.Helper()
	return openSession(t, a, addr, database, "")
}

func openSession(t testing.TB, a testenv.Account, addr, database, params string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/%s?%s", a.User, a.Password, addr, database, params))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func mustExec(t testing.TB, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.Exec(statement, args...); err != nil {
		t.Errorf("%s: %v", statement, err)
	}
}

// mysqlDB is a database of its own on a server that the tests share.
type mysqlDB struct {
	server *testenv.Server
	addr   string // where its clients connect
	name   string
	admin  *sql.DB
	cleans bool

	plain    bool          // all sessions are as the client library and the server make them
	sessions *atomic.Int64 // there were
}

// session is what the next process's DSN says besides.
func (m *mysqlDB) session() string {
	if m.plain {
		return ""
	}
	all := settings(m.server)
	return all[m.sessions.Add(1)%int64(len(all))]
}

func (m *mysqlDB) Cleaning() dibsdrivertest.Store {
	c := *m
	c.cleans = true
	return &c
}

func (m *mysqlDB) Addr() string { return m.addr }

func (m *mysqlDB) Via(addr string) dibsdrivertest.Store {
	via := *m
	via.addr = addr
	return &via
}

func (m *mysqlDB) Sessions(t testing.TB) (all, working int) {
	t.Helper()
	err := m.admin.QueryRow("SELECT COUNT(*), COALESCE(SUM(command <> 'Sleep'), 0) FROM information_schema.processlist WHERE user = ? AND db = ?",
		m.server.App.User, m.name).Scan(&all, &working)
	if err != nil {
		t.Errorf("counting sessions: %v", err)
	}
	return all, working
}

func (m *mysqlDB) URL() string {
	query := url.Values{session: {m.session()}}
	if m.cleans {
		query.Set(cleaning, "")
	}
	return fmt.Sprintf("mysql://%s:%s@%s/%s?%s", m.server.App.User, m.server.App.Password, m.addr, m.name, query.Encode())
}

func (m *mysqlDB) Driver(t testing.TB) dibsdriver.Driver {
	t.Helper()
	params := m.session()
	t.Logf("a driver with the DSN's parameters %q", params)
	db := openSession(t, m.server.App, m.addr, m.name, params)
	return &poolDriver{dibsmysql.New(db, nil), db}
}

// poolDriver has a pool to itself, which ends with it.
type poolDriver struct {
	*dibsmysql.Driver
	db *sql.DB
}

func (p *poolDriver) Close() error { return errors.Join(p.Driver.Close(), p.db.Close()) }

func (m *mysqlDB) Peek(t testing.TB, key string) (l dibsdrivertest.Lease) {
	t.Helper()
	var us int64
	err := m.admin.QueryRow(`SELECT owner IS NOT NULL AND expires > UTC_TIMESTAMP(6), TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires), fence
		FROM dibs_leases WHERE lock_key = ?`, []byte(key)).Scan(&l.Held, &us, &l.Token)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		t.Errorf("peeking at %q: %v", key, err)
	}
	if l.Held {
		l.Left = time.Duration(us) * time.Microsecond
	}
	return l
}

// StepClock moves the rows, as the server's clock cannot be.
func (m *mysqlDB) StepClock(t testing.TB, d time.Duration) int64 {
	t.Helper()
	us := -d.Microseconds()
	mustExec(t, m.admin, "UPDATE dibs_leases SET fence = fence + ?, since = since + INTERVAL ? MICROSECOND, "+
		"expires = IF(owner IS NULL, expires, expires + INTERVAL ? MICROSECOND)", us, us, us)
	return us
}

func (m *mysqlDB) RemoveRow(t testing.TB, key string) {
	t.Helper()
	mustExec(t, m.admin, "DELETE FROM dibs_leases WHERE lock_key = ?", []byte(key))
}

// Block is a stranger's transaction that has all rows, and the gaps between them, and takes its time.
func (m *mysqlDB) Block(t testing.TB) (unblock func()) {
	t.Helper()
	tx, err := m.admin.Begin()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := tx.Query("SELECT lock_key FROM dibs_leases FOR UPDATE")
	if err != nil {
		t.Fatal(err)
	}
	rows.Close()
	return func() { _ = tx.Rollback() }
}
