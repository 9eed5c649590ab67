package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
)

// Incidents (B and a number) that are these servers' own matter; the others are in dibsdrivertest, and run on both as well.

// client is a process of its own on a pool.
func (b *bed) client(t testing.TB, db *sql.DB, ttl time.Duration) *dibs.Locker {
	t.Helper()
	l, err := dibs.New(New(db, nil), &dibs.Config{TTL: ttl, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = l.Shutdown(ctx)
	})
	return l
}

// TestB03_RowLockedAtTheRenewal: a renewal that the server answers with a lock wait time-out, or that skips the row, is repeated, and nothing is lost.
func TestB03_RowLockedAtTheRenewal(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		const ttl = 3 * time.Second
		lock, work, err := b.client(t, b.pool(t, ""), ttl).Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		ends := func() time.Time {
			_, _, left := b.peek(t, "k")
			return time.Now().Add(left)
		}
		for range 2 {
			time.Sleep(ttl/3 - 200*time.Millisecond)
			unlock := b.lockRow(t, "k")
			time.Sleep(time.Second)
			unlock()
			before := ends()
			eventually(t, "its end moves on", func() bool { return ends().Sub(before) > 300*time.Millisecond })
		}
		if err := lock.Err(); err != nil || work.Err() != nil {
			t.Errorf("a locked row cost the lease: %v", err)
		}
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
	})
}

// TestB42_WorkAndWaitersShareAPool: holders that need one more connection each, and waiters, never bring a small pool to a stand-still; nor do works that keep
// their connections for longer than a TTL, while others wait for one, cost any of them its lease.
func TestB42_WorkAndWaitersShareAPool(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		db := b.pool(t, "")
		db.SetMaxOpenConns(4)
		const ttl = 3 * time.Second
		l := b.client(t, db, ttl)
		selects := func() time.Duration {
			began := time.Now()
			var one int
			if err := db.QueryRowContext(within(t), "SELECT 1").Scan(&one); err != nil {
				t.Error(err)
			}
			return time.Since(began)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				err := l.Do(ctx, fmt.Sprint("key ", i), func(ctx context.Context) error {
					tx, err := db.BeginTx(ctx, nil)
					if err != nil {
						return err
					}
					defer func() { _ = tx.Rollback() }()
					var one int
					if err := tx.QueryRowContext(ctx, "SELECT 1").Scan(&one); err != nil {
						return err
					}
					time.Sleep(max(50*time.Millisecond, time.Until(began.Add(3*ttl/2))))
					return tx.Commit()
				})
				if err != nil {
					t.Errorf("worker %d: %v", i, err)
				}
			})
		}
		all.Wait()

		held, _, err := b.client(t, b.pool(t, ""), 30*time.Second).Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		waiting, stop := context.WithCancel(t.Context())
		for range 50 {
			all.Go(func() {
				if _, _, err := l.Acquire(waiting, "k"); err == nil {
					t.Error("a second holder")
				}
			})
		}
		for range 20 {
			if took := selects(); took > time.Second {
				t.Errorf("with 50 waiters SELECT 1 took %s", took)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if n := db.Stats().InUse; n > 3 {
			t.Errorf("50 waiters use %d connections", n)
		}
		stop()
		all.Wait()
		if err := held.Release(); err != nil {
			t.Error(err)
		}
	})
}

// TestB47_LeasesGone: a restore, a TRUNCATE, a replica that had not heard of them: the holders' next renewals find out, nothing is set again, and
// tokens go on rising.
func TestB47_LeasesGone(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		const ttl = 3 * time.Second
		l := b.client(t, b.pool(t, ""), ttl)
		lock, work, err := l.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		b.must(t, b.admin, "TRUNCATE dibs_leases")
		began := time.Now()
		next, _, err := b.client(t, b.pool(t, ""), ttl).Acquire(t.Context(), "k")
		if err != nil || next.Token() <= lock.Token() {
			t.Fatalf("token %d after %d: %v", next.Token(), lock.Token(), err)
		}
		select {
		case <-work.Done():
		case <-time.After(10 * time.Second):
			t.Fatal("the first holder was not told")
		}
		if took := time.Since(began); took > ttl/3+time.Second {
			t.Errorf("told after %s", took)
		}
		if err := context.Cause(work); !errors.Is(err, dibs.ErrLost) {
			t.Error(err)
		}
		if err := lock.Release(); !errors.Is(err, dibs.ErrLost) {
			t.Error(err)
		}
		if token, owner, _ := b.peek(t, "k"); token != next.Token() || owner == "" {
			t.Errorf("the first holder touched the second's lease: token %d, owner %q", token, owner)
		}
		if err := next.Release(); err != nil {
			t.Error(err)
		}
	})
}
