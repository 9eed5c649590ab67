package dibsmysql

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/testenv"
)

// TestSweepTakesWhatIsStale, and nothing else: whatever a row has been through, the end of it counts.
func TestSweepTakesWhatIsStale(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		const ago = 61 * time.Second
		freed(t, d, "free-new")
		freed(t, d, "free-old")
		b.age(t, "free-old", ago)

		owner, _ := take(t, d, "held-long-free-new", 30*time.Second)
		b.age(t, "held-long-free-new", 20*time.Second) // by the row, it was taken an hour ago and renewed since
		b.must(t, b.admin, "UPDATE dibs_leases SET since = since - INTERVAL 1 HOUR, fence = fence - 3600000000 WHERE lock_key = 'held-long-free-new'")
		release(t, d, "held-long-free-new", owner)

		take(t, d, "broken-new", 30*time.Second)
		b.must(t, b.admin, "UPDATE dibs_leases SET since = since - INTERVAL 1 HOUR, fence = fence - 3600000000 WHERE lock_key = 'broken-new'")
		token, _, _ := b.peek(t, "broken-new")
		if _, err := d.Break(within(t), dibsdriver.BreakParams{Key: "broken-new", Token: token, Now: true}); err != nil {
			t.Fatal(err)
		}

		take(t, d, "held", 30*time.Second)
		take(t, d, "expired-new", 30*time.Second)
		b.age(t, "expired-new", 85*time.Second)
		take(t, d, "expired-old", 30*time.Second)
		b.age(t, "expired-old", 91*time.Second)
		owner, _ = take(t, d, "renewed", 30*time.Second)
		b.must(t, b.admin, "UPDATE dibs_leases SET since = since - INTERVAL 1 HOUR, fence = fence - 3600000000 WHERE lock_key = 'renewed'")
		renewed(t, d, dibsdriver.Renewed, "renewed", owner, 30*time.Second)

		for _, key := range []string{"kept", "kept-old"} {
			owner, _ = take(t, d, key, 30*time.Second)
			if err := d.Release(within(t), dibsdriver.ReleaseParams{Key: key, Owner: owner, Keep: 20 * time.Second}); err != nil {
				t.Fatal(err)
			}
		}
		b.age(t, "kept-old", 85*time.Second)
		freed(t, d, "token-ahead")
		b.age(t, "token-ahead", time.Hour)
		b.must(t, b.admin, "UPDATE dibs_leases SET fence = fence + 3600000000 WHERE lock_key = 'token-ahead'")

		r := swept(t, d, 0, 3)
		if want := "broken-new expired-new free-new held held-long-free-new kept renewed token-ahead"; b.keys(t) != want {
			t.Errorf("left are %s, and not %s", b.keys(t), want)
		}
		if r.Lag < time.Second || r.Lag > time.Minute || r.Took <= 0 {
			t.Errorf("%+v", r)
		}
		swept(t, d, 0, 0)
		if r := swept(t, d, 30*time.Second, 1); r.Lag <= 0 || strings.Contains(b.keys(t), "expired-new") {
			t.Errorf("%+v; left are %s", r, b.keys(t))
		}
		b.nothingOpen(t)
	})
}

// TestSweepS4TokensRise: over the removal of a row, also for a driver that was opened before, and with a clock that was set back.
func TestSweepS4TokensRise(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		sweeps, before, behind := b.driver(t, ""), b.driver(t, ""), b.driver(t, b.setBack(t, 30*time.Second))
		freed(t, before, "other")
		freed(t, behind, "another")
		const keys = "k1 k2 k3"
		tokens := make(map[string]int64)
		for key := range strings.FieldsSeq(keys) {
			freed(t, sweeps, key)
			b.age(t, key, 61*time.Second)
			tokens[key] = b.number(t, "SELECT fence FROM dibs_leases WHERE lock_key = ?", []byte(key))
		}
		swept(t, sweeps, 0, 3)
		if floor := b.meta(t, "token_floor"); floor < tokens["k3"] {
			t.Errorf("the floor is %d, and a row with %d was removed", floor, tokens["k3"])
		}
		for key, d := range map[string]*Driver{"k1": before, "k2": behind, "k3": b.driver(t, b.setBack(t, 2*time.Hour))} {
			// A holder in one process may have handed the lease on that often.
			if token := freed(t, d, key); token < tokens[key]+dibsdriver.TokenStep {
				t.Errorf("%s: token %d, then %d", key, tokens[key], token)
			}
		}
	})
}

// TestSweepS4TokenOfAStatementThatWaited: it began before a row was taken that is removed by the time it goes on.
func TestSweepS4TokenOfAStatementThatWaited(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		freed(t, d, "other")
		// A row that is not yet there for anybody, and then never was.
		tx, err := b.admin.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		b.must(t, tx, "INSERT INTO dibs_leases (lock_key, fence, expires, since, is_open) VALUES ('k', 1, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), 0)")
		tokens := make(chan int64, 1)
		began := time.Now()
		go func() {
			r, err := d.Acquire(within(t), params("k", 30*time.Second))
			if err != nil || !r.Acquired {
				t.Errorf("%+v, %v", r, err)
			}
			tokens <- r.Token
		}()
		eventually(t, "it waits for longer than a row has to stay", func() bool { return b.threads(t) == 1 && time.Since(began) > minRetention })
		b.must(t, b.admin, "UPDATE dibs_meta SET value = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) WHERE name = 'token_floor'")
		floor := b.meta(t, "token_floor")
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		token := <-tokens
		if token < floor+dibsdriver.TokenStep {
			t.Errorf("token %d, and a row with %d was removed", token, floor)
		}
		if is, _, left := b.peek(t, "k"); is != token || left < 20*time.Second {
			t.Errorf("token %d, with %s left", is, left)
		}
	})
}

// TestSweepTokenAheadOfTheClock: the row of a key that was taken so often that its token is ahead stays, since a driver that knows an old floor would give a lower one.
func TestSweepTokenAheadOfTheClock(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		d, before := b.driver(t, ""), b.driver(t, "")
		freed(t, before, "other")
		freed(t, d, "k")
		b.must(t, b.admin, "UPDATE dibs_leases SET fence = fence + 3000000, since = since - INTERVAL 1 HOUR WHERE lock_key = 'k'")
		ahead := b.number(t, "SELECT fence FROM dibs_leases WHERE lock_key = 'k'")
		swept(t, d, 0, 0)
		if token := freed(t, before, "k"); token <= ahead {
			t.Errorf("token %d, then %d", ahead, token)
		}
	})
}

// TestSweepNoNewRowIsTouched: what was read as old, and was taken before it could be removed, stays: held, renewed or released a moment ago.
func TestSweepNoNewRowIsTouched(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		for name, plain := range map[string]bool{"skipping": false, "waiting": true} {
			d := b.driver(t, "")
			for _, key := range []string{"free", "old", "taken"} {
				freed(t, d, key)
				b.age(t, key, time.Hour)
			}
			w := newWire(t, b.Addr)
			w.holdAt = "DELETE "
			sweeps := b.through(t, w, "")
			if plain {
				sweeps.asOld(t)
			}
			done := make(chan SweepReport, 1)
			go func() {
				r, _ := sweeps.Sweep(within(t), 0)
				done <- r
			}()
			select {
			case <-w.held:
			case r := <-done:
				t.Fatalf("%s: nothing was to be removed: %+v", name, r)
			}
			owner, _ := take(t, d, "taken", 30*time.Second)
			freed(t, d, "free")
			if _, err := d.Sweep(within(t), 0); !errors.Is(err, dibs.ErrBusy) || !strings.Contains(err.Error(), "another process") {
				t.Errorf("two at once: %v", err)
			}
			close(w.resume)
			if r := <-done; r.Rows != 1 || r.Err != nil || b.keys(t) != "free taken" {
				t.Errorf("%s: %+v; left are %s", name, r, b.keys(t))
			}
			renewed(t, d, dibsdriver.Renewed, "taken", owner, 30*time.Second)
			release(t, d, "taken", owner)
			swept(t, d, 0, 0)
		}
	})
}

// asOld lets the driver take the server for one that cannot skip locked rows.
func (d *Driver) asOld(t testing.TB) {
	t.Helper()
	s, err := d.ensure(within(t))
	if err != nil {
		t.Fatal(err)
	}
	old := *s
	old.skipLocked = false
	d.server.Store(&old)
}

// TestSweepWaitsForNobody: rows that a stranger has locked (a fenced transaction, say) are passed by, and the others of their batch go.
func TestSweepWaitsForNobody(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		b.oldRows(t, "k", 5)
		unlock := b.lockRow(t, "k00000002")
		swept(t, d, 0, 4)
		unlock()
		swept(t, d, 0, 1)
	})
}

// TestSweepWindows: more rows than are read or removed at a time, with living ones among them.
func TestSweepWindows(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		n := 2*sweepWindow + sweepBatch/2
		b.oldRows(t, "k", n)
		b.must(t, b.admin, "UPDATE dibs_leases SET since = UTC_TIMESTAMP(6) WHERE lock_key LIKE '%7'")
		live := b.number(t, "SELECT COUNT(*) FROM dibs_leases WHERE lock_key LIKE '%7'")
		swept(t, d, 0, int64(n)-live)
		if left := b.number(t, "SELECT COUNT(*) FROM dibs_leases"); left != live {
			t.Errorf("%d rows are left, of %d", left, live)
		}
	})
}

// TestSweepSettings: no setting of a session makes a difference.
func TestSweepSettings(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		all := []string{"sql_safe_updates=1", "clientFoundRows=true&interpolateParams=true", "time_zone=%27%2B13:00%27&charset=latin1", "sql_mode=%27ANSI,NO_BACKSLASH_ESCAPES%27"}
		if b.mysql {
			all = append(all, "transaction_isolation=%27SERIALIZABLE%27&sql_safe_updates=1", "transaction_isolation=%27READ-COMMITTED%27")
		} else {
			all = append(all, "tx_isolation=%27SERIALIZABLE%27&sql_safe_updates=1", "sql_mode=%27ORACLE%27", "sql_mode=%27SIMULTANEOUS_ASSIGNMENT,EMPTY_STRING_IS_NULL%27")
		}
		for i, params := range all {
			d := b.driver(t, params)
			if i%2 == 1 {
				d.asOld(t)
			}
			freed(t, d, "new")
			b.oldRows(t, "k", 70)
			t.Log(params)
			swept(t, d, 0, 70)
		}
	})
}

// TestSweepRetention: what does not fit together is refused, and removes nothing.
func TestSweepRetention(t *testing.T) {
	for _, c := range []struct {
		cfg  SweepConfig
		says string
	}{
		{SweepConfig{Retention: -time.Second}, "Retention is -1s"},
		{SweepConfig{Retention: time.Millisecond}, "1s at least"},
		{SweepConfig{Every: time.Millisecond}, "Every is 1ms"},
		{SweepConfig{Every: -1}, "Every is -1ns"},
	} {
		d := New(opened(t, "u@tcp(127.0.0.1:1)/db"), &Config{Sweep: &c.cfg})
		if _, err := dibs.New(d, nil); !errors.Is(err, dibsdriver.ErrRefused) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
	onBoth(t, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		b.oldRows(t, "k", 3)
		b.must(t, b.admin, "UPDATE dibs_leases SET since = UTC_TIMESTAMP(6) - INTERVAL 90 SECOND WHERE lock_key = 'k00000001'")
		if _, err := d.Sweep(within(t), -1); !errors.Is(err, dibsdriver.ErrRefused) {
			t.Error(err)
		}
		take(t, d, "ttl", 2*time.Minute)
		r, err := d.Sweep(within(t), time.Minute)
		if !errors.Is(err, dibsdriver.ErrRefused) || r.Err != err || r.Rows != 0 || !strings.Contains(err.Error(), "2m0s") ||
			!strings.Contains(err.Error(), "raise the retention") {
			t.Errorf("%+v, %v", r, err)
		}
		b.nothingOpen(t)
		swept(t, d, 0, 2) // the default is as long as the TTL
		owner, _ := take(t, d, "renewal", time.Minute)
		renewed(t, d, dibsdriver.Renewed, "renewal", owner, 3*time.Minute)
		if _, err := d.Sweep(within(t), 2*time.Minute); !errors.Is(err, dibsdriver.ErrRefused) || !strings.Contains(err.Error(), "3m0s") {
			t.Error(err)
		}
	})
}

// TestSweepRights: each right that is missing is told, and nothing is left of the pass: no turn, no transaction, no statement.
func TestSweepRights(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		x := newBed(t, b.Server, false)
		x.database = "x" + b.database // where the application has no right yet
		b.must(t, b.admin, "CREATE DATABASE "+x.database)
		t.Cleanup(func() { b.must(t, b.admin, "DROP DATABASE "+x.database) })
		x.admin = b.open(t, b.Admin, x.database, "")
		if err := drive(t, x.admin).CreateTables(within(t)); err != nil {
			t.Fatal(err)
		}
		user := "s" + b.database[len(testenv.DatabasePrefix):]
		b.must(t, b.admin, "CREATE USER "+user+"@'%' IDENTIFIED BY 'secret'")
		t.Cleanup(func() { b.must(t, b.admin, "DROP USER "+user+"@'%'") })
		change := func(how, rights, table, to string) {
			t.Helper()
			b.must(t, b.admin, how+" "+rights+" ON "+x.database+".dibs_"+table+" "+to+" "+user+"@'%'")
		}
		for _, table := range []string{"leases", "meta"} {
			change("GRANT", "SELECT, INSERT, UPDATE, DELETE", table, "TO")
		}
		d := drive(t, x.open(t, testenv.Account{User: user, Password: "secret"}, x.database, ""))
		freed(t, d, "new")
		n := int64(0)
		for _, right := range []string{"DELETE leases", "SELECT leases", "UPDATE meta", "INSERT meta", "SELECT meta"} {
			what, table, _ := strings.Cut(right, " ")
			x.oldRows(t, right, 3)
			n += 3
			change("REVOKE", what, table, "FROM")
			r, err := d.Sweep(within(t), 0)
			if !errors.Is(err, dibsdriver.ErrRefused) || r.Rows != 0 || !strings.Contains(err.Error(), "SELECT, INSERT, UPDATE and DELETE") ||
				strings.Contains(err.Error(), "secret") {
				t.Errorf("without %s: %+v, %v", right, r, err)
			}
			x.nothingOpen(t)
			if left := x.number(t, "SELECT COUNT(*) FROM dibs_leases"); left != n+1 {
				t.Errorf("without %s: %d rows are left, of %d", right, left, n+1)
			}
			change("GRANT", what, table, "TO")
		}
		swept(t, d, 0, n)
	})
}

// TestSweepEndsWithItsContext, and gives its turn up at once.
func TestSweepEndsWithItsContext(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		b.oldRows(t, "k", 20_000)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan SweepReport, 1)
		go func() {
			r, _ := d.Sweep(ctx, 0)
			done <- r
		}()
		eventually(t, "it sweeps", func() bool { return b.number(t, "SELECT COUNT(*) FROM dibs_leases") < 20_000 })
		cancel()
		if r := <-done; !errors.Is(r.Err, context.Canceled) || r.Rows == 0 || r.Rows == 20_000 {
			t.Errorf("%+v", r)
		}
		eventually(t, "its statements have ended", func() bool { return b.threads(t) == 0 })
		b.nothingOpen(t)
	})
}
