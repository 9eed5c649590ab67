package dibsdrivertest_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/dibsdrivertest"
	"github.com/dibs-go/dibs/dibssqlite"
	_ "modernc.org/sqlite"
)

var sqliteStore = dibsdrivertest.Factory{Name: "sqlite", New: newSQLite}

func TestSQLite(t *testing.T) {
	own := sqliteStore
	own.Cases = func(name string) bool { return !transfers(name) } // see TestSQLiteOfTheUsers
	dibsdrivertest.Run(t, own)
}

func TestMain(m *testing.M) { dibsdrivertest.Main(m, open) }

// openOther opens the stores of other files by the scheme of their URL.
var openOther = map[string]dibsdrivertest.Open{}

// open opens a store in a helper process.
func open(url string) (dibsdriver.Driver, error) {
	scheme, path, _ := strings.Cut(url, ":")
	if other, ok := openOther[scheme]; ok {
		return other(url)
	}
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(10000)&_pragma=synchronous(1)")
	if err != nil {
		return nil, err
	}
	if scheme == usersSQLite {
		return &sqliteDriver{dibssqlite.New(db, nil), db}, nil
	}
	d, err := dibssqlite.Open(path, nil)
	if err != nil {
		return nil, err
	}
	return &sqliteDriver{d, db}, nil
}

func newSQLite(t testing.TB) dibsdrivertest.Store { return newSQLiteFile(t) }

func newSQLiteFile(t testing.TB) *sqlite {
	s := &sqlite{scheme: ownSQLite, path: filepath.Join(tempDir(t), "dibs.db")}
	s.db = sync.OnceValue(func() *sql.DB {
		db, err := sql.Open("sqlite", "file:"+s.path+"?_pragma=busy_timeout(10000)&_txlock=immediate")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db
	})
	s.db()
	return s
}

// tempDir is in memory where there is such a place: the suite is about locks, and a disk that others keep busy makes every lease late.
func tempDir(t testing.TB) string {
	t.Helper()
	const memory = "/dev/shm"
	if fi, err := os.Stat(memory); err != nil || !fi.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "dibs-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// sqlite looks into the file with SQL of its own.
type sqlite struct {
	scheme string
	path   string
	db     func() *sql.DB
}

func (s *sqlite) URL() string { return s.scheme + ":" + s.path }

func (s *sqlite) Driver(t testing.TB) dibsdriver.Driver {
	t.Helper()
	d, err := open(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// row asks for one row, which may not be there, as may its table.
func (s *sqlite) row(t testing.TB, query string, args []any, into ...any) {
	t.Helper()
	err := s.db().QueryRow(query, args...).Scan(into...)
	if err != nil && !errors.Is(err, sql.ErrNoRows) && !strings.Contains(err.Error(), "no such table") {
		t.Errorf("%s: %v", query, err)
	}
}

func (s *sqlite) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	if _, err := s.db().Exec(query, args...); err != nil {
		t.Errorf("%s: %v", query, err)
	}
}

func (s *sqlite) Peek(t testing.TB, key string) (l dibsdrivertest.Lease) {
	t.Helper()
	var left float64
	s.row(t, `SELECT owner IS NOT NULL AND expires_ms / 1000.0 > unixepoch('subsec'), expires_ms - 1000 * unixepoch('subsec'), token
		FROM dibs_leases WHERE lock_key = ?`, []any{[]byte(key)}, &l.Held, &left, &l.Token)
	if l.Held {
		l.Left = time.Duration(left * float64(time.Millisecond))
	}
	return l
}

func (s *sqlite) Queued(t testing.TB, key string) (n int) {
	t.Helper()
	s.row(t, "SELECT count(*) FROM dibs_waiters WHERE lock_key = ?", []any{[]byte(key)}, &n)
	return n
}

// StepClock moves the rows, as the machine's clock cannot be.
func (s *sqlite) StepClock(t testing.TB, d time.Duration) int64 {
	t.Helper()
	ms, us := -d.Milliseconds(), -d.Microseconds()
	s.exec(t, "UPDATE dibs_leases SET expires_ms = expires_ms + ?1, since_ms = since_ms + ?1, token = token + ?2", ms, us)
	s.exec(t, "UPDATE dibs_waiters SET seen_ms = seen_ms + ?", ms)
	s.exec(t, "UPDATE dibs_meta SET value = value + ? WHERE name = 'token_floor' AND value > 0", us)
	return us
}

func (s *sqlite) RemoveRow(t testing.TB, key string) {
	t.Helper()
	s.exec(t, "DELETE FROM dibs_leases WHERE lock_key = ?", []byte(key))
}

// Block is a stranger's transaction that takes its time.
func (s *sqlite) Block(t testing.TB) (unblock func()) {
	t.Helper()
	tx, err := s.db().BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return func() { tx.Rollback() }
}
