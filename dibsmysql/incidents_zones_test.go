package dibsmysql

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// zoned is a DSN's idea of where it is.
func zoned(zone, loc string, parse bool) string {
	return fmt.Sprintf("time_zone=%s&loc=%s&parseTime=%v", url.QueryEscape("'"+zone+"'"), url.QueryEscape(loc), parse)
}

// clock is the server's, in microseconds of UTC.
func (b *bed) clock(t testing.TB) int64 {
	t.Helper()
	return b.number(t, "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))")
}

func (b *bed) column(t testing.TB, name, key string) int64 {
	t.Helper()
	return b.number(t, "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', "+name+") FROM dibs_leases WHERE lock_key = ?", []byte(key))
}

// lasts requires that what f does to a key gives it a lease of ttl from now on, to the microsecond by the server's clock, however slow the machine is.
func (b *bed) lasts(t testing.TB, key string, ttl time.Duration, f func()) {
	t.Helper()
	before := b.clock(t)
	f()
	after := b.clock(t)
	if end := b.column(t, "expires", key); end < before+ttl.Microseconds() || end > after+ttl.Microseconds() {
		t.Errorf("between %d and %d: a lease that ends %d µs after the first", before, after, end-before)
	}
}

// takenOver requires that a dead holder's key passes on when its lease has expired: neither earlier, nor may anybody be told later that it is busy.
func (b *bed) takenOver(t testing.TB, other *Driver, key string, token int64) {
	t.Helper()
	time.Sleep(time.Duration(b.column(t, "expires", key)-b.clock(t))*time.Microsecond - 100*time.Millisecond)
	for limit := time.Now().Add(15 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		end, now := b.column(t, "expires", key), b.clock(t)
		p := params(key, time.Minute)
		r, err := other.Acquire(within(t), p)
		switch {
		case err != nil:
			t.Fatal(err)
		case r.Acquired:
			if since := b.column(t, "since", key); since < end || r.Token <= token {
				t.Errorf("taken over %d µs before its end; token %d after %d", end-since, r.Token, token)
			}
			release(t, other, key, p.Owner)
			return
		case now >= end || time.Now().After(limit):
			t.Fatalf("said to be busy %d µs after its end", now-end)
		}
	}
}

// TestB32_SessionZones: sessions and clients of different zones see the same leases, which are as long as they were asked for, and take them over when they end.
func TestB32_SessionZones(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		for i, c := range [][2]string{
			{zoned("+00:00", "UTC", false), zoned("+05:00", "Asia/Kolkata", true)},
			{zoned("+05:00", "Asia/Kolkata", true), zoned("+00:00", "UTC", false)},
			{zoned("-11:00", "Pacific/Kiritimati", true), zoned("+13:00", "America/New_York", true)},
		} {
			t.Run(c[0], func(t *testing.T) {
				t.Parallel()
				key := fmt.Sprint("k", i)
				holder, other := b.driver(t, c[0]), b.driver(t, c[1])
				const first, ttl = 2 * time.Second, 4 * time.Second
				var owner string
				var token int64
				b.lasts(t, key, first, func() { owner, token = take(t, holder, key, first) })
				b.lasts(t, key, ttl, func() { renewed(t, holder, dibsdriver.Renewed, key, owner, ttl) })
				before := b.clock(t)
				h := refusedBy(t, other, key) // the holder's process dies here
				after := b.clock(t)
				if end := b.column(t, "expires", key); h.ExpiresIn.Microseconds() < end-after || h.ExpiresIn.Microseconds() > end-before {
					t.Errorf("it is seen to end in %s, and ends in %d µs", h.ExpiresIn, end-after)
				}
				b.takenOver(t, other, key, token)
			})
		}
	})
}

// TestB32_ProcessesOfDifferentZones: the same of a process that lives in another time zone, renews its lease, and is killed.
func TestB32_ProcessesOfDifferentZones(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		b.work(t)
		const ttl = 3 * time.Second
		h := helperIn(t, []string{"TZ=Pacific/Kiritimati"}, "hold", b.dsn(b.App, b.database, zoned("-11:00", "Local", true)), ttl.String(), "keep")
		if line := h.line(t); line != "read" {
			t.Fatal(line)
		}
		other := b.driver(t, zoned("+05:00", "Asia/Kolkata", false))
		token := refusedBy(t, other, "k").Token
		for end := time.Now().Add(3 * ttl / 2); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if now := refusedBy(t, other, "k"); now.Token != token || now.ExpiresIn > ttl {
				t.Errorf("token %d, then %d; ends in %s", token, now.Token, now.ExpiresIn)
			}
		}
		h.kill()
		b.takenOver(t, other, "k", token)
	})
}

var (
	timeLiteral = regexp.MustCompile(`\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|['"]\d\d:\d\d`)
	hexLiteral  = regexp.MustCompile(`(?i)(?:x'([0-9a-f]*)'|\b0x([0-9a-f]+))`)
	digits      = regexp.MustCompile(`\d{10,}`)
)

// timeIn returns what in a statement may be a time: a text, quoted or in hexadecimal, or a number that is within a year of now as seconds, milliseconds, microseconds,
// nanoseconds, or as YYYYMMDDhhmmss; "" if there is none.
func timeIn(statement string, now time.Time) string {
	near := func(t time.Time) bool { return t.Sub(now).Abs() < 365*24*time.Hour }
	isTime := func(n int64) bool {
		return near(time.Unix(n, 0)) || near(time.UnixMilli(n)) || near(time.UnixMicro(n)) || near(time.Unix(0, n))
	}
	statement = strings.ReplaceAll(statement, "'1970-01-01'", "")
	statement = hexLiteral.ReplaceAllStringFunc(statement, func(s string) string {
		s = strings.Trim(s[2:], "'")
		b, err := hex.DecodeString(strings.Repeat("0", len(s)%2) + s)
		if err != nil {
			return s
		}
		if n, err := strconv.ParseInt(hex.EncodeToString(b), 16, 64); err == nil && isTime(n) {
			return " " + number(n) + " "
		}
		return "'" + string(b) + "'"
	})
	for _, run := range digits.FindAllString(statement, -1) {
		if n, err := strconv.ParseInt(run, 10, 64); err == nil && isTime(n) {
			return run
		}
		if len(run) >= 14 {
			if t, err := time.Parse("20060102150405", run[:14]); err == nil && near(t) {
				return run
			}
		}
	}
	return timeLiteral.FindString(statement)
}

// TestB32_TimesAreFound: what is looked for in the log would be found there.
func TestB32_TimesAreFound(t *testing.T) {
	now := time.Now()
	text := now.UTC().Format("2006-01-02 15:04:05.000000")
	for _, s := range []string{
		"'" + text + "'", literal(text), literal("a note of " + text), literal("it is " + number(now.UnixMilli())),
		number(now.Add(time.Hour).Unix()), number(now.UnixMicro()), number(now.UnixNano()),
		fmt.Sprintf("0x%x", now.UnixMicro()), fmt.Sprintf("X'%016x'", now.UnixMicro()), now.Format("20060102150405"), "'12:30:00'", `"2020-02-03"`,
	} {
		if timeIn("UPDATE dibs_leases SET expires = "+s, now) == "" {
			t.Errorf("%s is not found", s)
		}
	}
	if found := timeIn("SET expires = UTC_TIMESTAMP(6) + INTERVAL 86400000000 MICROSECOND, owner = "+literal(newOwner())+", n = 2100000000000000", now); found != "" {
		t.Errorf("%s is none", found)
	}
}

// TestB32_NoTimesOfClients: the server's log of statements has no time that a client made, in whatever shape. The sessions' clocks are many years
// ahead, so that the server's own times, of which tokens are made, cannot be taken for the client's. (The keeper's session has the right time, by which
// no lease has expired.)
func TestB32_NoTimesOfClients(t *testing.T) {
	t.Parallel()
	onBothAlone(t, nil, func(t *testing.T, b *bed) {
		const then = 2_100_000_000
		b.work(t)
		b.must(t, b.admin, "SET GLOBAL log_output = 'TABLE'")
		b.must(t, b.admin, "SET GLOBAL general_log = ON")
		d, other := b.driver(t, at(then)), b.driver(t, at(then))
		owner, token := take(t, d, "k", time.Minute)
		for range 2 { // the second only reads
			refusedBy(t, other, "k")
		}
		renewed(t, d, dibsdriver.Renewed, "k", owner, time.Hour)
		if _, err := d.List(within(t), ""); err != nil {
			t.Error(err)
		}
		if _, err := d.Break(within(t), dibsdriver.BreakParams{Key: "k", Token: token}); err != nil {
			t.Error(err)
		}
		if _, err := d.Break(within(t), dibsdriver.BreakParams{Key: "k", Token: token, Now: true}); err != nil {
			t.Error(err)
		}
		owner, _ = take(t, other, "k", time.Minute)
		if err := other.Release(within(t), dibsdriver.ReleaseParams{Key: "k", Owner: owner, Keep: time.Second}); err != nil {
			t.Error(err)
		}
		freed(t, d, "free")
		l := b.locker(t, at(then), nil)
		for what, in := range map[string]inTxFunc{"InTx": InTx, "InTxAndRelease": InTxAndRelease} {
			lock, _ := hold(t, l, what)
			if err := in(within(t), b.pool(t, at(then)), lock, b.adds(t)); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if err := lock.Release(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		later := b.driver(t, at(then+24*3600))
		swept(t, later, time.Hour, 4)
		take(t, later, "k", time.Minute)
		if err := d.Ping(within(t)); err != nil {
			t.Error(err)
		}
		b.must(t, b.admin, "SET GLOBAL general_log = OFF")
		rows, err := b.admin.Query("SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log WHERE user_host LIKE ?", "%"+b.App.User+"%")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		seen := make(map[string]int)
		for rows.Next() {
			var statement string
			if err := rows.Scan(&statement); err != nil {
				t.Fatal(err)
			}
			verb, _, _ := strings.Cut(statement, " ")
			if strings.Contains(statement, "dibs_leases") {
				seen[verb]++
			}
			if found := timeIn(statement, time.Now()); found != "" {
				t.Errorf("%s in: %s", found, statement)
			}
		}
		if err := rows.Err(); err != nil || seen["INSERT"] < 5 || seen["UPDATE"] < 5 || seen["SELECT"] < 5 || seen["DELETE"] < 1 {
			t.Errorf("%v were seen: %v", seen, err)
		}
	})
}
