package dibssqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// bench is a file with business data, and a lock, in it.
type bench struct {
	path   string
	driver *Driver
	locker *dibs.Locker
	db     *sql.DB // the application's; BEGIN is deferred there
	look   *sql.DB // the test's
}

// fencedWays runs a test with both kinds of driver, and both journals.
func fencedWays(t *testing.T, cfg *dibs.Config, test func(t *testing.T, b *bench)) {
	for _, way := range []string{"Open", "New", "New, rollback journal"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, way)
			b.locker = locker(t, b.driver, cfg)
			test(t, b)
		})
	}
}

func newBench(t testing.TB, way string) *bench {
	t.Helper()
	b := &bench{path: tempFile(t)}
	b.look = raw(t, b.path)
	journal := "WAL"
	if way == "New, rollback journal" {
		journal = "DELETE"
	}
	mustExec(t, b.look, "PRAGMA journal_mode = "+journal)
	mustExec(t, b.look, "CREATE TABLE work (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, token INTEGER NOT NULL DEFAULT 0, fence INTEGER)")
	mustExec(t, b.look, "INSERT INTO work (id, n) VALUES (1, 0)")
	b.db = raw(t, b.path+"?_busy_timeout=10000")
	if way == "Open" {
		d, err := Open(b.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		b.driver = d
	} else {
		b.driver = New(b.db, nil)
	}
	return b
}

func locker(t testing.TB, d dibsdriver.Driver, cfg *dibs.Config) *dibs.Locker {
	t.Helper()
	l, err := dibs.New(d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l
}

// hold acquires a key that is free.
func hold(t testing.TB, l *dibs.Locker, key string, opts ...dibs.Option) (*dibs.Lock, context.Context) {
	t.Helper()
	lock, ctx, err := l.Acquire(within(t), key, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Release() })
	return lock, ctx
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	t.Cleanup(cancel)
	return ctx
}

const add = "UPDATE work SET n = n + 1 WHERE id = 1"

func adds(tx *sql.Tx) error {
	_, err := tx.Exec(add)
	return err
}

func (b *bench) worked(t testing.TB, want int64) {
	t.Helper()
	if n := number(t, b.look, "SELECT n FROM work WHERE id = 1"); n != want {
		t.Errorf("n is %d, want %d", n, want)
	}
}

func begin(t testing.TB, db *sql.DB, first ...string) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(within(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	for _, s := range first {
		if _, err := tx.Exec(s); err != nil {
			t.Fatal(s, err)
		}
	}
	return tx
}

// is requires an error that matches, and that says more than its name.
func is(t testing.TB, what string, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) || err.Error() == target.Error() {
			t.Errorf("%s: %v, want %v and what to do", what, err, target)
		}
	}
}

// TestS7_Fence: a transaction that takes the write lock at once may read first.
func TestS7_Fence(t *testing.T) {
	t.Parallel()
	fencedWays(t, nil, func(t *testing.T, b *bench) {
		lock, _ := hold(t, b.locker, "k")
		other, _ := hold(t, b.locker, "other")
		tx := begin(t, raw(t, b.path+"?_txlock=immediate"))
		if n := 0; tx.QueryRow("SELECT n FROM work").Scan(&n) != nil || adds(tx) != nil {
			t.Error("cannot add")
		}
		for _, lock := range []*dibs.Lock{lock, lock, other} {
			if err := Fence(within(t), tx, lock); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		b.worked(t, 1)
	})
}

// TestFact8_AutocommitBesideAWriter: a handle that is no transaction is found out as well while somebody else has the write lock for a moment.
func TestFact8_AutocommitBesideAWriter(t *testing.T) {
	t.Parallel()
	fencedWays(t, nil, func(t *testing.T, b *bench) {
		lock, _ := hold(t, b.locker, "k")
		autocommit, err := b.db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer autocommit.Close()
		writer := begin(t, b.look, add)
		result := make(chan error, 1)
		go func() { result <- Fence(within(t), autocommit, lock) }()
		select {
		case err := <-result:
			t.Errorf("it did not wait: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
		if err := writer.Rollback(); err != nil {
			t.Fatal(err)
		}
		is(t, "autocommit", <-result, dibsdriver.ErrRefused)
	})
}

// TestFact46_Deferred: a transaction that has only read is refused, whether or not a lease was renewed since, and whoever else has the write lock.
func TestFact46_Deferred(t *testing.T) {
	t.Parallel()
	fencedWays(t, nil, func(t *testing.T, b *bench) {
		lock, _ := hold(t, b.locker, "k")
		for _, renewed := range []bool{false, true} {
			tx := begin(t, b.db)
			var n int
			if err := tx.QueryRow("SELECT n FROM work").Scan(&n); err != nil {
				t.Fatal(err)
			}
			if renewed && strings.HasSuffix(t.Name(), "_journal") {
				_ = tx.Rollback() // it would keep others from committing
				continue
			}
			if renewed {
				for range 2 {
					if err := lock.Verify(within(t)); err != nil {
						t.Fatal(err)
					}
				}
			}
			began := time.Now()
			err := Fence(within(t), tx, lock)
			is(t, "deferred", err, dibsdriver.ErrRefused)
			if err != nil && (!strings.Contains(err.Error(), "_txlock=immediate") || !strings.Contains(err.Error(), "InTx")) {
				t.Errorf("the error does not name the remedy: %v", err)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
			if err := tx.Rollback(); err != nil {
				t.Error(err)
			}
		}
		if err := InTx(within(t), b.db, lock, adds); err != nil {
			t.Error(err)
		}
	})
}

// TestS7_OtherFile: a transaction on another file is refused, whatever is in it; by another name for the same file it is not.
func TestS7_OtherFile(t *testing.T) {
	t.Parallel()
	fencedWays(t, nil, func(t *testing.T, b *bench) {
		lock, _ := hold(t, b.locker, "k")
		other := newBench(t, "Open")
		defer other.driver.Close()
		for _, prepare := range []string{"SELECT 1", Schema(nil), "ATTACH '" + b.path + "' AS home; INSERT INTO dibs_leases SELECT * FROM home.dibs_leases"} {
			other.look.SetMaxOpenConns(1)
			mustExec(t, other.look, prepare)
			tx := begin(t, other.db, add)
			alone := Fence(within(t), tx, lock)
			_ = tx.Rollback()
			for _, err := range []error{alone, InTx(within(t), other.db, lock, adds)} {
				is(t, prepare, err, dibsdriver.ErrRefused)
				if errors.Is(err, dibs.ErrLost) || !strings.Contains(err.Error(), "another file") {
					t.Errorf("%v", err)
				}
			}
		}
		other.worked(t, 0)
		again := raw(t, filepath.Dir(b.path)+"/../"+filepath.Base(filepath.Dir(b.path))+"/"+filepath.Base(b.path))
		if err := InTx(within(t), again, lock, adds); err != nil {
			t.Error(err)
		}
		b.worked(t, 1)
	})
}
