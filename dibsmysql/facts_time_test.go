package dibsmysql

import (
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// The facts are those of mysql-facts.md, by their numbers.

// at is a DSN parameter that stops a session's clock.
func at(unix float64) string { return fmt.Sprintf("timestamp=%f", unix) }

// TestFact16_WaitedForTheRow: a statement that had to wait for its row leaves a lease that began when the statement did, never one that is longer, and
// takes none that came to life meanwhile.
func TestFact16_WaitedForTheRow(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		owner, _ := take(t, d, "k", time.Minute)
		release(t, d, "k", owner)
		unlock := b.lockRow(t, "k")
		time.AfterFunc(1500*time.Millisecond, unlock)
		began := time.Now()
		owner, _ = take(t, d, "k", time.Second)
		if waited := time.Since(began); waited < 1400*time.Millisecond {
			t.Fatalf("it did not wait: %s", waited)
		}
		us := b.number(t, "SELECT TIMESTAMPDIFF(MICROSECOND, since, expires) FROM dibs_leases WHERE lock_key = 'k'")
		if us != 1_000_000 {
			t.Errorf("a lease of %d µs", us)
		}
		_, is, left := b.peek(t, "k")
		if is != owner || left > 0 {
			t.Errorf("owner %s, %s left", is, left)
		}
	})
}

// TestFact16_ExpiredIsNotHeld: a Locker whose request waited for the row for longer than its lease would have lasted has no lock, and leaves none. One
// that waited less long believes in no more of its lease than the store has left.
func TestFact16_ExpiredIsNotHeld(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		freed(t, b.driver(t, ""), "k")
		lockFor := func(d time.Duration) (unlock func()) {
			unlock = sync.OnceFunc(b.lockRow(t, "k"))
			time.AfterFunc(d, unlock)
			return unlock
		}
		l := b.locker(t, "", nil)
		unlock := lockFor(4 * time.Second) // a request that waits for it comes too late by far
		lock, _, err := l.TryAcquire(within(t), "k", dibs.TTL(time.Second))
		unlock()
		if lock != nil || !errors.Is(err, dibs.ErrUnavailable) || errors.Is(err, dibs.ErrBusy) {
			t.Errorf("%v, %v", lock, err)
		}
		eventually(t, "it is free", func() bool { _, owner, _ := b.peek(t, "k"); return owner == "" })

		unlock = lockFor(time.Second)
		lock, _, err = l.TryAcquire(within(t), "k", dibs.TTL(20*time.Second))
		unlock()
		if err != nil {
			t.Fatal(err)
		}
		asked, believed := time.Now(), lock.Remaining()
		_, _, left := b.peek(t, "k")
		if left += time.Since(asked); believed <= 0 || believed > left {
			t.Errorf("it believes in %s, and the store has left %s", believed, left)
		}
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
	})
}

// TestFact17_18_19_20_Clocks: in a session of a zone with summer time a lease of 30 s has 30 s, when the clocks go forward and when they go back; at a time
// that the zone does not have, too.
func TestFact17_18_19_SummerTime(t *testing.T) {
	t.Setenv("TZ", "Europe/Amsterdam") // the servers' time zone is the system's, as they are started with it
	onBothAlone(t, nil, func(t *testing.T, b *bed) {
		if zone := b.number(t, "SELECT HOUR(FROM_UNIXTIME(1711846799)) * 100 + HOUR(FROM_UNIXTIME(1711846801))"); zone != 103 {
			t.Fatalf("the server is in another zone: %d", zone)
		}
		const spring, autumn, gap = 1711846799, 1729990799, 1711852200 // the last is 02:30 UTC on that day in spring
		for i, c := range []struct {
			from, to float64
			held     bool
		}{
			{spring, spring + 2, true}, {spring, spring + 29.9, true}, {spring, spring + 30.1, false},
			{autumn, autumn + 29.9, true}, {autumn, autumn + 30.1, false}, {autumn, autumn + 3500, false},
			{gap, gap + 29.9, true}, {gap, gap + 30.1, false},
		} {
			key := fmt.Sprint("k", i)
			_, first := take(t, b.driver(t, at(c.from)), key, 30*time.Second)
			r, err := b.driver(t, at(c.to)).Acquire(within(t), params(key, time.Second))
			if err != nil || r.Acquired == c.held {
				t.Errorf("from %f to %f: %+v, %v", c.from, c.to, r, err)
			}
			if first != int64(c.from)*1_000_000 {
				t.Errorf("token %d at %f", first, c.from)
			}
		}
	})
}

// TestFact43_TokensInAnyZone: a token is the time in UTC, whatever the session's zone.
func TestFact43_TokensInAnyZone(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		for _, zone := range []string{"+13:00", "-12:00", "+05:45"} {
			d := b.driver(t, "time_zone="+url.QueryEscape("'"+zone+"'")+"&"+at(1_800_000_000))
			if _, token := take(t, d, zone, time.Minute); token != 1_800_000_000_000_000 {
				t.Errorf("%s: token %d", zone, token)
			}
		}
	})
}

// TestFact26_NothingChanged: a renewal that changes nothing, as the clock has not moved on, is none that was lost; however rows are counted.
func TestFact26_NothingChanged(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		for _, found := range []string{"false", "true"} {
			d := b.driver(t, "clientFoundRows="+found+"&"+at(1_800_000_000))
			owner, _ := take(t, d, "k"+found, time.Minute)
			for range 3 {
				renewed(t, d, dibsdriver.Renewed, "k"+found, owner, time.Minute)
			}
			renewed(t, d, dibsdriver.Renewed, "k"+found, owner, time.Second)
			release(t, d, "k"+found, owner)
			renewed(t, d, dibsdriver.Lost, "k"+found, owner, time.Minute)
		}
	})
}

// TestFact41_AroundExpiry: at the moment of expiry the answer and the row agree, always; as callers see it.
func TestFact41_AroundExpiry(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		rounds, taken, enough, limit := 0, 0, 100, 20*time.Second
		if long {
			enough, limit = 10_000, 4*time.Minute
		}
		for end := time.Now().Add(limit); taken < enough && time.Now().Before(end); rounds++ {
			key := fmt.Sprint("k", rounds)
			// 1 ms is less than the engine asks for, and has the expiry come soon.
			first, token := take(t, d, key, time.Millisecond)
			for {
				d.busy.forget(key) // ask by the statement, not by reading
				p := params(key, time.Minute)
				r, err := d.Acquire(within(t), p)
				if err != nil {
					t.Fatal(err)
				}
				now, owner, _ := b.peek(t, key)
				if r.Acquired && (owner != p.Owner || now != r.Token || now < token+dibsdriver.TokenStep) || !r.Acquired && (owner != first || now != token) {
					t.Fatalf("answered %+v to %s, and the row has %s with %d", r, p.Owner, owner, now)
				}
				if r.Acquired {
					taken++
					break
				}
			}
		}
		if taken < enough/2 {
			t.Errorf("%d takeovers prove nothing", taken)
		}
	})
}

// TestFact41_ThousandsOfExpiries: the same of the statement alone. The server repeats it by itself, with no network between two of them, so that a lease often
// expires in the middle of one: with SYSDATE, which is read anew in each expression, one answer in 130 was wrong.
func TestFact41_ThousandsOfExpiries(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		takeovers := 1_500
		if long {
			takeovers = 50_000
		}
		q := newStatements("dibs_")
		b.must(t, b.admin, `CREATE PROCEDURE expiries(takeovers INT) BEGIN
			DECLARE own, had, has VARBINARY(64) DEFAULT '';
			DECLARE answer, token, last, n, torn BIGINT DEFAULT 0;
			WHILE takeovers > 0 DO
				SET n = n + 1, own = CONCAT('owner ', n);
				`+q.acquire.with("'k'", "own", "200", "1024", "NULL", "NULL")+`;
				SELECT CAST(LAST_INSERT_ID() AS SIGNED), owner, fence INTO answer, has, token FROM dibs_leases WHERE lock_key = 'k';
				IF answer > 0 AND has = own AND token = answer AND token > last THEN
					SET takeovers = takeovers - 1;
				ELSEIF answer > 0 OR has <> had OR token <> last THEN
					SET torn = torn + 1;
				END IF;
				SET had = has, last = token;
			END WHILE;
			SELECT n, torn;
		END`)
		var asked, torn int
		if err := b.admin.QueryRow("CALL expiries(?)", takeovers).Scan(&asked, &torn); err != nil {
			t.Fatal(err)
		}
		if torn > 0 || asked < 2*takeovers {
			t.Errorf("%d answers, %d takeovers, %d answers and rows do not agree", asked, takeovers, torn)
		}
		t.Logf("%d answers, %d takeovers", asked, takeovers)
	})
}
