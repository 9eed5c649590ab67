package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
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

// TestB32_SessionZones: sessions of different zones see the same leases, and take them over at the same time.
func TestB32_SessionZones(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		zoned := func(zone string) *sql.DB {
			return b.pool(t, "time_zone=%27"+strings.ReplaceAll(zone, "+", "%2B")+"%27&loc=Asia%2FKolkata&parseTime=true")
		}
		for i, zones := range [][2]string{{"+00:00", "+05:00"}, {"+05:00", "+00:00"}, {"-11:00", "+13:00"}} {
			key := fmt.Sprint("k", i)
			holder, other := drive(t, zoned(zones[0])), drive(t, zoned(zones[1]))
			const ttl = 1500 * time.Millisecond
			_, token := take(t, holder, key, ttl) // its process dies here
			before := time.Now()
			_, _, left := b.peek(t, key)
			end, latest := before.Add(left), time.Now().Add(left)
			if left > ttl || left < ttl-time.Second {
				t.Errorf("%s: %s are left of %s", zones[0], left, ttl)
			}
			if h := refusedBy(t, other, key); h.ExpiresIn > ttl || h.ExpiresIn <= 0 {
				t.Errorf("%s sees the lease of %s end in %s", zones[1], zones[0], h.ExpiresIn)
			}
			var r dibsdriver.AcquireResult
			eventually(t, "it is taken over", func() bool {
				var err error
				if r, err = other.Acquire(within(t), params(key, time.Minute)); err != nil {
					t.Fatal(err)
				}
				return r.Acquired
			})
			if now := time.Now(); now.Before(end) || now.After(latest.Add(time.Second)) {
				t.Errorf("%s took over from %s %s after its end", zones[1], zones[0], now.Sub(end))
			}
			if r.Token <= token {
				t.Errorf("token %d after %d", r.Token, token)
			}
		}
	})
}

var timeLiteral = regexp.MustCompile(`['"](\d{4}-\d\d-\d\d)?[ T]?\d\d:\d\d|['"]\d{4}-\d\d-\d\d`)

// TestB32_NoTimesOfClients: the server's log of statements has no time that a client made.
func TestB32_NoTimesOfClients(t *testing.T) {
	t.Parallel()
	onBothAlone(t, nil, func(t *testing.T, b *bed) {
		d, other := b.driver(t, ""), b.driver(t, "")
		b.must(t, b.admin, "SET GLOBAL log_output = 'TABLE'")
		b.must(t, b.admin, "SET GLOBAL general_log = ON")
		exercise(t, "k", d, other)
		if err := d.Ping(within(t)); err != nil {
			t.Error(err)
		}
		b.must(t, b.admin, "SET GLOBAL general_log = OFF")
		rows, err := b.admin.Query("SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log WHERE user_host LIKE ?", "%"+b.App.User+"%")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		leases := 0
		for rows.Next() {
			var statement string
			if err := rows.Scan(&statement); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(statement, "dibs_leases") {
				leases++
			}
			if found := timeLiteral.FindString(strings.ReplaceAll(statement, "'1970-01-01'", "")); found != "" {
				t.Errorf("%s in: %s", found, statement)
			}
		}
		if err := rows.Err(); err != nil || leases < 10 {
			t.Errorf("%d statements were seen: %v", leases, err)
		}
	})
}

// TestB42_WorkAndWaitersShareAPool: holders that need one more connection each, and waiters, never bring a small pool to a stand-still.
func TestB42_WorkAndWaitersShareAPool(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		db := b.pool(t, "")
		db.SetMaxOpenConns(4)
		l := b.client(t, db, 5*time.Second)
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
					time.Sleep(50 * time.Millisecond)
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

// TestFact10_Savepoints: a lease is no part of the caller's transaction: neither a rollback to a savepoint nor one of all takes it away, or keeps it.
func TestFact10_Savepoints(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		db := b.pool(t, "")
		d, other := drive(t, db), b.driver(t, "")
		take(t, d, "warm", time.Minute)
		for i, first := range []string{"SAVEPOINT s", "SELECT COUNT(*) FROM dibs_leases"} {
			key := fmt.Sprint("k", i)
			tx, err := db.Begin()
			if err != nil {
				t.Fatal(err)
			}
			b.must(t, tx, first)
			b.must(t, tx, "SAVEPOINT s")
			owner, token := take(t, d, key, time.Minute)
			b.must(t, tx, "ROLLBACK TO SAVEPOINT s")
			if h := refusedBy(t, other, key); h.Token != token {
				t.Errorf("after the savepoint: token %d, then %d", token, h.Token)
			}
			b.must(t, tx, "SAVEPOINT s2")
			release(t, d, key, owner)
			b.must(t, tx, "ROLLBACK TO SAVEPOINT s2")
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			take(t, other, key, time.Minute) // the release was not undone either
		}
	})
}
