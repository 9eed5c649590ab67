package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// TestFact46_OpenOverRenewals: a transaction that was open over two renewals of its lock is fenced at every isolation level, but for those at which
// the server would not lock the row: there it is refused, whether the lease was renewed or not.
func TestFact46_OpenOverRenewals(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		b.work(t)
		const ttl = 2 * time.Second
		settings := []string{""}
		if !b.mysql {
			settings = []string{"innodb_snapshot_isolation=0", "innodb_snapshot_isolation=1"}
		}
		for _, setting := range settings {
			for _, level := range []sql.IsolationLevel{
				sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable, sql.LevelDefault,
			} {
				t.Run(fmt.Sprint(level, setting), func(t *testing.T) {
					t.Parallel()
					snapshot := strings.HasSuffix(setting, "=1") && level != sql.LevelReadUncommitted && level != sql.LevelReadCommitted
					db := b.pool(t, setting)
					var renewals atomic.Int32
					l := b.locker(t, "", &dibs.Config{TTL: ttl, Events: dibs.Events{Renewed: func(dibs.Event) { renewals.Add(1) }}})
					for _, renewed := range []bool{true, false} {
						key := fmt.Sprint(level, setting, renewed)
						opts := []dibs.Option{}
						if !renewed {
							opts = append(opts, dibs.TTL(time.Hour))
						}
						lock, _ := hold(t, l, key, opts...)
						tx := begin(t, db, level)
						var n int64
						if err := tx.QueryRow("SELECT n FROM work WHERE id = 1").Scan(&n); err != nil {
							t.Fatal(err)
						}
						if err := tx.QueryRow("SELECT COUNT(*) FROM dibs_meta").Scan(&n); err != nil {
							t.Fatal(err)
						}
						if renewed {
							before := renewals.Load()
							eventually(t, "two renewals", func() bool { return renewals.Load() >= before+2 })
						}
						err := Fence(within(t), tx, lock)
						switch {
						case !snapshot && err != nil:
							t.Errorf("renewed %v: %v", renewed, err)
						case !snapshot:
							if err := errors.Join(Fence(within(t), tx, lock), tx.Commit()); err != nil { // now its row is locked by ourselves
								t.Error(err)
							}
						default:
							is(t, fmt.Sprint("renewed ", renewed), err, dibsdriver.ErrRefused)
							if err != nil && (!strings.Contains(err.Error(), "READ COMMITTED") || errors.Is(err, dibs.ErrLost)) {
								t.Errorf("the error does not name the remedy: %v", err)
							}
						}
						_ = tx.Rollback()
						// InTx works whatever the session is set to.
						if err := InTx(within(t), db, lock, func(tx *sql.Tx) error {
							if err := tx.QueryRow("SELECT n FROM work WHERE id = 1").Scan(&n); err != nil {
								return err
							}
							return lock.Verify(within(t)) // a renewal
						}); err != nil {
							t.Errorf("InTx: %v", err)
						}
						if err := lock.Release(); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
	})
}

// TestFact45_FencedTransactionHangs: one that hangs before its COMMIT costs none of the other leases, and nobody gets its own key; when it goes on,
// it commits.
func TestFact45_FencedTransactionHangs(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		b.work(t)
		// The margin leaves a loaded machine time.
		const ttl = 3 * time.Second
		var renewals atomic.Int32
		l := b.locker(t, "", &dibs.Config{TTL: ttl, Events: dibs.Events{
			Renewed: func(e dibs.Event) {
				if e.Key != "k" {
					renewals.Add(1)
				}
			},
		}})
		lock, _ := hold(t, l, "k")
		others := make([]context.Context, 100)
		for i := range others {
			_, others[i] = hold(t, l, fmt.Sprint("other", i))
		}
		tx := begin(t, b.pool(t, ""), sql.LevelDefault)
		b.must(t, tx, add)
		if err := Fence(within(t), tx, lock); err != nil {
			t.Fatal(err)
		}
		eventually(t, "its own lease has ended", func() bool { return errors.Is(lock.Err(), dibs.ErrLost) })
		eventually(t, "the others were renewed", func() bool { return renewals.Load() >= 300 })
		for i, ctx := range others {
			if ctx.Err() != nil {
				t.Errorf("other %d: %v", i, context.Cause(ctx))
			}
		}
		eventually(t, "it has expired", func() bool { _, _, left := b.peek(t, "k"); return left <= 0 })
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, _, err := b.locker(t, "", nil).TryAcquire(ctx, "k"); err == nil {
			t.Error("taken from under a transaction that may still commit")
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		b.worked(t, 1)
		if err := lock.Release(); !errors.Is(err, dibs.ErrLost) {
			t.Errorf("release: %v", err)
		}
	})
}

// TestFact52_L1_FencedCommitFrozen: a process that is silent between its fence and its commit keeps the key for one TTL at most after that: the
// server ends the session, and the commit, when it comes after all, commits nothing.
func TestFact52_L1_FencedCommitFrozen(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		b.work(t)
		w := newWire(t, b.Addr)
		l := b.locker(t, "", nil)
		const ttl = 2 * time.Second
		lock, _ := hold(t, l, "k", dibs.TTL(ttl))
		w.set(func(w *wire) { w.holdAt = commitPacket })
		done := make(chan error, 1)
		go func() { done <- InTx(within(t), b.behind(t, w), lock, b.adds(t)) }()
		<-w.held
		resume := sync.OnceFunc(func() { close(w.resume) })
		defer resume()
		frozen := time.Now()
		next, _ := hold(t, b.locker(t, "", &dibs.Config{RequestTimeout: 10 * time.Second}), "k")
		if took := time.Since(frozen); took > 2*ttl+3*time.Second {
			t.Errorf("the key passed on after %s", took)
		}
		if err := InTx(within(t), b.pool(t, ""), next, b.adds(t)); err != nil {
			t.Error(err)
		}
		resume()
		if err := <-done; err == nil {
			t.Error("committed after the key had passed on")
		}
		b.worked(t, 1)
		if err := lock.Release(); !errors.Is(err, dibs.ErrLost) {
			t.Errorf("release: %v", err)
		}
		if err := next.Release(); err != nil {
			t.Error(err)
		}
	})
}
