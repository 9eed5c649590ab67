package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/testenv"
	"github.com/go-sql-driver/mysql"
)

// locker is a Locker of the application's on a bed.
func (b *bed) locker(t testing.TB, params string, cfg *dibs.Config) *dibs.Locker {
	t.Helper()
	return locker(t, New(b.pool(t, params), nil), cfg)
}

func locker(t testing.TB, d dibsdriver.Driver, cfg *dibs.Config) *dibs.Locker {
	t.Helper()
	l, err := dibs.New(d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second) // a test that has failed may have left a lock
		defer cancel()
		if err := l.Shutdown(ctx); err != nil {
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

func begin(t testing.TB, db interface {
	BeginTx(context.Context, *sql.TxOptions) (*sql.Tx, error)
}, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(within(t), &sql.TxOptions{Isolation: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
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

// work makes a table for business data, with one row of 0.
func (b *bed) work(t testing.TB) {
	t.Helper()
	b.must(t, b.admin, "CREATE TABLE work (id INT PRIMARY KEY, n BIGINT NOT NULL, token BIGINT NOT NULL DEFAULT 0, fence BIGINT) ENGINE=InnoDB")
	b.must(t, b.admin, "INSERT INTO work (id, n) VALUES (1, 0)")
}

const add = "UPDATE work SET n = n + 1 WHERE id = 1"

func (b *bed) worked(t testing.TB, want int64) {
	t.Helper()
	if n := b.number(t, "SELECT n FROM work WHERE id = 1"); n != want {
		t.Errorf("n is %d, want %d", n, want)
	}
}

// TestS7_Rights: a user who may do nothing but what dibs needs can have transactions fenced, and one that is READ ONLY is refused, before it waits for a row.
func TestS7_Rights(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		b.work(t)
		db := b.pool(t, "")
		if _, err := db.Exec("CREATE TABLE other (a INT)"); code(err) != 1142 {
			t.Errorf("the application's user is to have no more rights than it needs: %v", err)
		}
		lock, _ := hold(t, b.locker(t, "", nil), "k")
		if err := InTx(within(t), db, lock, b.adds(t)); err != nil {
			t.Error(err)
		}
		b.worked(t, 1)
		readOnly, err := db.BeginTx(within(t), &sql.TxOptions{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = readOnly.Rollback() }()
		err = Fence(within(t), readOnly, lock)
		is(t, "a read-only one", err, dibsdriver.ErrRefused)
		if err != nil && (!strings.Contains(err.Error(), "READ ONLY") || strings.Contains(err.Error(), b.App.Password)) {
			t.Error(err)
		}
	})
}

// TestS7_OtherDatabaseOtherServer: a lock in another database of the server fences as well; one on another server is refused.
func TestS7_OtherDatabaseOtherServer(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		elsewhere := newBed(t, b.Server, true)
		elsewhere.work(t)
		db := elsewhere.pool(t, "")
		l := b.locker(t, "", nil)
		lock, _ := hold(t, l, "k")
		if err := InTx(within(t), db, lock, func(tx *sql.Tx) error { elsewhere.must(t, tx, add); return nil }); err != nil {
			t.Error(err)
		}
		elsewhere.worked(t, 1)
		if err := InTxAndRelease(within(t), db, lock, func(tx *sql.Tx) error { elsewhere.must(t, tx, add); return nil }); err != nil {
			t.Error(err)
		}
		elsewhere.worked(t, 2)
		if _, owner, _ := b.peek(t, "k"); owner != "" {
			t.Errorf("the lease is still %s's", owner)
		}
		// Another prefix: the lock leads to its own table.
		prefixed := New(b.admin, &Config{TablePrefix: "other_"})
		if err := prefixed.CreateTables(within(t)); err != nil {
			t.Fatal(err)
		}
		lock, _ = hold(t, locker(t, prefixed, nil), "k")
		b.must(t, b.admin, "UPDATE other_leases SET owner = 'x'")
		is(t, "other prefix", InTx(within(t), b.admin, lock, func(*sql.Tx) error { return nil }), dibs.ErrLost)
	})
	for i, k := range kinds {
		for _, other := range []*testenv.Server{kinds[1-i].shared(t), k.alone(t)} {
			home, data := newBed(t, k.shared(t), true), newBed(t, other, true)
			data.work(t)
			db := data.pool(t, "")
			lock, _ := hold(t, home.locker(t, "", nil), "k")
			_, owner, _ := home.peek(t, "k")
			// There the row is, too, as on a replica; or it is not; or nothing is.
			data.must(t, data.admin, "INSERT INTO dibs_leases SELECT 'k', ?, ?, '2999-01-01', '2000-01-01', 1, NULL, NULL", lock.Token(), owner)
			data.must(t, data.admin, "RENAME TABLE dibs_leases TO elsewhere")
			data.must(t, data.admin, "CREATE DATABASE IF NOT EXISTS "+home.database)
			t.Cleanup(func() { _, _ = data.admin.Exec("DROP DATABASE " + home.database) })
			for _, change := range []string{"SELECT 1", "CREATE TABLE " + home.database + ".dibs_leases LIKE elsewhere",
				"INSERT INTO " + home.database + ".dibs_leases SELECT * FROM elsewhere"} {
				data.must(t, data.admin, change)
				tx := begin(t, db, sql.LevelReadCommitted)
				alone := Fence(within(t), tx, lock)
				_ = tx.Rollback() // it may have locked a row there
				for _, err := range []error{alone, InTx(within(t), db, lock, func(tx *sql.Tx) error { data.must(t, tx, add); return nil })} {
					is(t, "another server", err, dibsdriver.ErrRefused)
					if errors.Is(err, dibs.ErrLost) || !strings.Contains(err.Error(), "another server") {
						t.Errorf("%s: %v", change, err)
					}
				}
			}
			data.worked(t, 0)
		}
	}
}

// TestFact9_ImplicitCommit: a statement that commits under way is noticed, also if it has begun the next transaction.
func TestFact9_ImplicitCommit(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		b.work(t)
		l := b.locker(t, "", nil)
		lock, _ := hold(t, l, "k")
		for i, statements := range [][]string{
			{"CREATE TABLE t0 (a INT)"}, {"LOCK TABLES work WRITE", "UNLOCK TABLES"}, {"BEGIN"}, {"COMMIT"}, {"CREATE TABLE t1 (a INT)", "BEGIN", add},
		} {
			fn := func(tx *sql.Tx) error {
				b.must(t, tx, add)
				for _, s := range statements {
					b.must(t, tx, s)
				}
				return nil
			}
			err := InTx(within(t), b.admin, lock, fn)
			is(t, statements[0], err, dibsdriver.ErrRefused)
			if err != nil && !strings.Contains(err.Error(), "without the fence") {
				t.Error(err)
			}
			b.worked(t, int64(i+1)) // what was committed under way; nothing else
			if i >= 2 {
				continue // a transaction is under way, or nothing else is
			}
			tx := begin(t, b.admin, sql.LevelDefault)
			for _, s := range statements {
				b.must(t, tx, strings.Replace(s, "t0", "t2", 1))
			}
			is(t, statements[0], Fence(within(t), tx, lock), dibsdriver.ErrRefused)
			_ = tx.Rollback()
		}
		if err := InTx(within(t), b.admin, lock, func(tx *sql.Tx) error { return tx.Commit() }); !errors.Is(err, sql.ErrTxDone) {
			t.Error(err)
		}
	})
}

// TestFenceErrorsKeepTheirCause: what the server said is there for errors.As.
func TestFenceErrorsKeepTheirCause(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		l := b.locker(t, "", nil)
		lock, _ := hold(t, l, "k")
		unlock := b.lockRow(t, "k")
		tx := begin(t, b.pool(t, "innodb_lock_wait_timeout=1"), sql.LevelDefault)
		err := Fence(within(t), tx, lock)
		is(t, "a locked row", err, dibs.ErrUnavailable)
		if cause, ok := errors.AsType[*mysql.MySQLError](err); !ok || cause.Number != 1205 {
			t.Errorf("%v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		is(t, "a context that ends", Fence(ctx, begin(t, b.pool(t, ""), sql.LevelDefault), lock), dibs.ErrUnavailable, context.DeadlineExceeded)
		unlock()
	})
}
