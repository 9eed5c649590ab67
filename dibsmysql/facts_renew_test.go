package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// TestFact45_OneLockedRow: one locked row among 200 makes no other lease late, and that one is unknown, not lost.
func TestFact45_OneLockedRow(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		for _, isolation := range []string{"'READ-COMMITTED'", "'REPEATABLE-READ'", "'SERIALIZABLE'"} {
			name := "transaction_isolation="
			if !b.mysql {
				name = "tx_isolation="
			}
			d := b.driver(t, name+isolation)
			leases := make([]dibsdriver.Renewal, 200)
			for i := range leases {
				key := fmt.Sprintf("%s%03d", isolation, i)
				owner, _ := take(t, d, key, time.Minute)
				leases[i] = dibsdriver.Renewal{Key: key, Owner: owner, TTL: time.Hour}
			}
			unlock := b.lockRow(t, leases[77].Key)
			began := time.Now()
			answers, err := d.Renew(within(t), leases)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 700*time.Millisecond {
				t.Errorf("%s: the batch took %s", isolation, took)
			}
			for i, a := range answers {
				if a != dibsdriver.Renewed && i != 77 || a != dibsdriver.Unknown && i == 77 {
					t.Errorf("%s: lease %d: %v", isolation, i, a)
				}
			}
			// Others are not held up either, whatever the batch has passed.
			began = time.Now()
			take(t, d, isolation+"between", time.Minute)
			release(t, d, leases[78].Key, leases[78].Owner)
			if took := time.Since(began); took > 700*time.Millisecond {
				t.Errorf("%s: others took %s", isolation, took)
			}
			unlock()
			renewed(t, d, dibsdriver.Renewed, leases[77].Key, leases[77].Owner, time.Minute)
		}
	})
}

// TestFact53_B42_PoolUsedUp: business work that uses the whole pool for longer than a TTL, and would take more, costs no lease; releases and acquisitions get
// through as well.
func TestFact53_B42_PoolUsedUp(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		const ttl = 3 * time.Second
		db := b.pool(t, "")
		db.SetMaxOpenConns(5)
		l, other := b.locker(t, "", nil), locker(t, New(db, nil), &dibs.Config{TTL: ttl})
		lock, work := hold(t, other, "k")
		// Five transactions, the last of which takes any connection that comes free.
		began, ended := make(chan *sql.Tx, 5), make(chan error, 5)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range cap(began) {
			go func() {
				tx, err := db.BeginTx(ctx, nil)
				if err == nil {
					began <- tx
					<-ctx.Done()
					_ = tx.Rollback()
				} else if ctx.Err() != nil {
					err = nil
				}
				ended <- err
			}()
		}
		eventually(t, "four have begun and the fifth waits", func() bool { return len(began) == 4 && db.Stats().WaitCount > 0 })
		held := time.Now()
		for n := 0; time.Since(held) < 2*ttl && work.Err() == nil; n++ {
			key := fmt.Sprint("another ", n)
			short, _, err := other.Acquire(within(t), key)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := l.TryAcquire(within(t), key); !errors.Is(err, dibs.ErrBusy) {
				t.Errorf("%s: %v", key, err)
			}
			time.Sleep(200 * time.Millisecond)
			if err := short.Release(); err != nil {
				t.Errorf("releasing %s: %v", key, err)
			}
			if n := len(began); n != 4 {
				t.Fatalf("%d transactions have a connection, so none is kept for renewals", n)
			}
		}
		if err := lock.Verify(within(t)); err != nil {
			t.Errorf("after two TTLs: %v", err)
		}
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
		cancel()
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestFact54_WithoutSkipLocked: a server that does not know it renews row by row, and each locked row makes those behind it late by a second.
func TestFact54_WithoutSkipLocked(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"9.7.4-2": true, "8.0.1": true, "8.0.0-dmr": false, "5.7.44-log": false, "10.11.19-MariaDB-0+deb12u1": true, "5.5.5-10.6.1-MariaDB": true,
		"10.5.28-MariaDB": false, "11.4.2-MariaDB": true, "8.0.11-TiDB-v8.5.0": false, "8.4.5-azure": true, "none": false,
	} {
		if skipsLocked(version, "") != want {
			t.Errorf("%s: want %v", version, want)
		}
	}
	onBoth(t, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		s, err := d.ensure(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		old := *s
		old.skipLocked = false
		d.server.Store(&old)
		var leases []dibsdriver.Renewal
		for i := range 3 {
			owner, _ := take(t, d, fmt.Sprint("k", i), time.Minute)
			leases = append(leases, dibsdriver.Renewal{Key: fmt.Sprint("k", i), Owner: owner, TTL: time.Minute})
		}
		leases = append(leases, dibsdriver.Renewal{Key: "k0", Owner: newOwner(), TTL: time.Minute})
		unlock := b.lockRow(t, "k1")
		defer unlock()
		answers, err := d.Renew(within(t), leases)
		if want := "[1 0 1 2]"; err != nil || fmt.Sprint(answers) != want {
			t.Errorf("%v, %v, want %s", answers, err, want)
		}
	})
}

// TestKeeperLost: a keeper's connection that the server has ended costs nothing but a new one.
func TestKeeperLost(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		owner, _ := take(t, d, "k", time.Minute)
		for range 3 {
			rows, err := b.admin.Query("SELECT id FROM information_schema.processlist WHERE user = ? AND db = ?", b.App.User, b.database)
			if err != nil {
				t.Fatal(err)
			}
			var ids []int64
			for rows.Next() {
				var id int64
				if err := rows.Scan(&id); err != nil {
					t.Fatal(err)
				}
				ids = append(ids, id)
			}
			rows.Close()
			for _, id := range ids {
				_, _ = b.admin.Exec("KILL " + number(id))
			}
			renewed(t, d, dibsdriver.Renewed, "k", owner, time.Minute)
		}
		release(t, d, "k", owner)
	})
}

// TestServerGoneAndBack: a killed server is unavailable, nothing is applied that is said not to be, and after its return the same driver
// goes on with what it held.
func TestServerGoneAndBack(t *testing.T) {
	t.Parallel()
	onBothAlone(t, nil, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		owner, token := take(t, d, "k", time.Hour)
		b.Kill()
		for range 3 {
			_, err := d.Acquire(within(t), params("other", time.Minute))
			if !errors.Is(err, dibsdriver.ErrUnavailable) || errors.Is(err, dibsdriver.ErrRefused) {
				t.Fatal(err)
			}
			if _, err := d.Renew(within(t), []dibsdriver.Renewal{{Key: "k", Owner: owner, TTL: time.Minute}}); !errors.Is(err, dibsdriver.ErrUnavailable) {
				t.Fatal(err)
			}
		}
		if err := b.Start(); err != nil {
			t.Fatal(err)
		}
		renewed(t, d, dibsdriver.Renewed, "k", owner, time.Hour)
		if h := refusedBy(t, b.driver(t, ""), "k"); h.Token != token {
			t.Errorf("token %d, then %d", token, h.Token)
		}
		release(t, d, "k", owner)
	})
}

// TestSessionsAsTheyWere: the connections of the pool come back as they were, and all but the keeper's at once; after Close that one, too.
func TestSessionsAsTheyWere(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		db := b.pool(t, "innodb_lock_wait_timeout=7&wait_timeout=1234&sql_safe_updates=1")
		db.SetMaxOpenConns(4)
		db.SetMaxIdleConns(4)
		d := New(db, nil)
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				key := fmt.Sprint("k", i)
				owner, token := take(t, d, key, time.Minute)
				renewed(t, d, dibsdriver.Renewed, key, owner, time.Minute)
				refusedBy(t, d, key)
				if _, err := d.Break(within(t), dibsdriver.BreakParams{Key: key, Token: token}); err != nil {
					t.Error(err)
				}
				ended, cancel := context.WithTimeout(t.Context(), time.Duration(i)*50*time.Microsecond)
				_ = d.Release(ended, dibsdriver.ReleaseParams{Key: key, Owner: owner})
				cancel()
			})
		}
		wg.Wait()
		eventually(t, "only the keeper's connection is in use", func() bool { return db.Stats().InUse == 1 })
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "no connection is kept", func() bool { return db.Stats().InUse == 0 })
		for range 4 {
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			var wait, timeout, safe int
			if err := conn.QueryRowContext(t.Context(), "SELECT @@innodb_lock_wait_timeout, @@wait_timeout, @@sql_safe_updates").Scan(&wait, &timeout, &safe); err != nil {
				t.Fatal(err)
			}
			if wait != 7 || timeout != 1234 || safe != 1 {
				t.Errorf("a session has %d, %d, %d", wait, timeout, safe)
			}
		}
	})
}
