package dibsdrivertest

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"github.com/dibs-go/dibs"
)

// fenceBed is a store with business data in it, and an application's process that takes locks there.
type fenceBed struct {
	*env
	Fences
	Fencing
	locker *dibs.Locker
}

// newFenceBed makes a table for business data, with one row of 0.
func newFenceBed(e *env, cfg dibs.Config) *fenceBed {
	e.Helper()
	b := &fenceBed{env: e, Fences: e.store.(Fencer).Fences(e)}
	b.must("CREATE TABLE work (id INT PRIMARY KEY, n BIGINT NOT NULL)")
	b.must("INSERT INTO work (id, n) VALUES (1, 0)")
	b.Fencing, b.locker = b.process(cfg)
	return b
}

// process is another process of the application, as far as the store knows. Its Locker ends in order, whatever became of its locks.
func (b *fenceBed) process(cfg dibs.Config) (Fencing, *dibs.Locker) {
	b.Helper()
	d, ok := b.driver().(FencingDriver)
	if !ok {
		b.Fatal("the store is a Fencer, and its driver is no FencingDriver")
	}
	f := d.Fencing()
	cfg.Logger = slog.New(slog.DiscardHandler)
	l, err := dibs.New(f.Driver, &cfg)
	b.ok(err, "making a locker")
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second) // a case that has failed may have left a lock
		defer cancel()
		if err := l.Shutdown(ctx); err != nil {
			b.Errorf("shutdown: %v", err)
		}
	})
	return f, l
}

// take takes a key that is free; it is released at the end, unless it was by then.
func (b *fenceBed) take(l *dibs.Locker, key string, opts ...dibs.Option) (*dibs.Lock, context.Context) {
	b.Helper()
	lock, work := b.hold(l, key, opts...)
	b.Cleanup(func() { _ = lock.Release() })
	return lock, work
}

// must changes the store as an admin.
func (b *fenceBed) must(statement string, args ...any) {
	b.Helper()
	if _, err := b.Admin.Exec(statement, args...); err != nil {
		b.Fatalf("%s: %v", statement, err)
	}
}

func (b *fenceBed) number(query string) (n int64) {
	b.Helper()
	if err := b.Admin.QueryRow(query).Scan(&n); err != nil {
		b.Fatalf("%s: %v", query, err)
	}
	return n
}

// within bounds a call that should end by itself much sooner.
func (b *fenceBed) within() context.Context {
	ctx, cancel := context.WithTimeout(b.Context(), 15*time.Second)
	b.Cleanup(cancel)
	return ctx
}

func (b *fenceBed) begin(level sql.IsolationLevel) *sql.Tx {
	b.Helper()
	tx, err := b.DB.BeginTx(b.within(), &sql.TxOptions{Isolation: level})
	b.ok(err, "begin")
	b.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// add is the work of a transaction: one more.
func (b *fenceBed) add(tx *sql.Tx) error {
	_, err := tx.Exec("UPDATE work SET n = n + 1 WHERE id = 1")
	if err != nil {
		b.Errorf("adding: %v", err)
	}
	return err
}

func (b *fenceBed) worked(want int64) {
	b.Helper()
	if n := b.number("SELECT n FROM work WHERE id = 1"); n != want {
		b.Errorf("n is %d, want %d", n, want)
	}
}

// says requires an error that matches, and that says more than its name.
func (b *fenceBed) says(what string, err error, targets ...error) {
	b.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) || err.Error() == target.Error() {
			b.Errorf("%s: %v, want %v and what to do", what, err, target)
		}
	}
}

type inTxFunc = func(ctx context.Context, db *sql.DB, lock *dibs.Lock, fn func(tx *sql.Tx) error) error

// both are the two ways to have a transaction fenced as a whole.
func (b *fenceBed) both() map[string]inTxFunc {
	return map[string]inTxFunc{"InTx": b.InTx, "InTxAndRelease": b.InTxAndRelease}
}

// back requires that no more connections of the application's pool are in use than before: a driver may keep one.
func (b *fenceBed) back(before int) {
	b.Helper()
	b.until(10*time.Second, "no connection is in use", func() bool { return b.DB.Stats().InUse <= before })
}
