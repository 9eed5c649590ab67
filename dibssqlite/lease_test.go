package dibssqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

func TestMillisRoundsUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		1: 1, time.Microsecond: 1, time.Millisecond: 1, time.Millisecond + 1: 2, 100*time.Millisecond + 1: 101, 24 * time.Hour: 86_400_000, 0: 0,
	} {
		if got := millis(d); got != want {
			t.Errorf("%v: %d, want %d", d, got, want)
		}
	}
}

// TestClock: what SQLite gives as the time is whole milliseconds, the same ones as the system's clock.
func TestClock(t *testing.T) {
	db := raw(t, tempFile(t))
	for range 2000 {
		before := time.Now().UnixMilli()
		got := number(t, db, "SELECT "+now)
		if after := time.Now().UnixMilli(); got < before || got > after {
			t.Fatal(before, got, after)
		}
	}
}

// TestTokensRise, whatever becomes of the row and of the clock, which the test sets back by moving the file's times ahead.
func TestTokensRise(t *testing.T) { bothWays(t, testTokensRise) }

func testTokensRise(t *testing.T, d *Driver, db *sql.DB) {
	if err := d.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	var last int64
	next := func(what string) {
		t.Helper()
		owner, token := take(t, d, "k", time.Hour)
		if token < last+dibsdriver.TokenStep {
			t.Errorf("%s: token %d after %d", what, token, last)
		}
		last = token
		release(t, d, "k", owner)
	}
	next("first")
	for range 50 {
		next("at once") // faster than one per 1024 µs, if the machine is
	}
	const day = 86_400_000
	mustExec(t, db, "UPDATE dibs_leases SET token = token + ?1 * 1000, since_ms = since_ms + ?1, expires_ms = expires_ms + ?1", day)
	last += day * 1000
	next("clock set back a day")

	mustExec(t, db, "UPDATE dibs_leases SET expires_ms = expires_ms - ?1", 2*day)
	sweepAll(t, d)
	if n := number(t, db, "SELECT count(*) FROM dibs_leases"); n != 0 {
		t.Error(n, "rows are left")
	}
	next("row cleaned away after the clock was set back")
	for range 5 {
		mustExec(t, db, "DELETE FROM dibs_leases")
		next("row deleted by an operator")
	}

	r, err := d.Acquire(t.Context(), dibsdriver.AcquireParams{Key: "new", Owner: newOwner(), TTL: time.Hour, Floor: last + 5_000_000_000_000})
	if err != nil || r.Token != last+5_000_000_000_000+dibsdriver.TokenStep {
		t.Error(r, err, last)
	}
	for _, floor := range []int64{dibsdriver.MaxToken, dibsdriver.MaxToken - dibsdriver.TokenStep + 1, math.MaxInt64 - dibsdriver.TokenStep} {
		_, err := d.Acquire(t.Context(), dibsdriver.AcquireParams{Key: "high", Owner: newOwner(), TTL: time.Hour, Floor: floor})
		if !errors.Is(err, dibsdriver.ErrRefused) || dibsdriver.FateOf(err) != dibsdriver.FateNotApplied {
			t.Error(floor, err)
		}
	}
	if n := number(t, db, "SELECT count(*) FROM dibs_leases WHERE lock_key = CAST('high' AS BLOB)"); n != 0 {
		t.Error("a refused acquire wrote a row")
	}
	mustExec(t, db, "UPDATE dibs_leases SET token = ?1, owner = NULL WHERE lock_key = CAST('k' AS BLOB)", int64(dibsdriver.MaxToken))
	if _, err := d.Acquire(t.Context(), dibsdriver.AcquireParams{Key: "k", Owner: newOwner(), TTL: time.Hour}); !errors.Is(err, dibsdriver.ErrRefused) {
		t.Error(err)
	}
}

func sweepAll(t *testing.T, d *Driver) {
	t.Helper()
	d.swept.cursor = nil
	for {
		var next []byte
		err := d.write(t.Context(), "clean up", d.writer, func(s *session) (err error) {
			next, err = d.sweep(s, d.swept.cursor, true)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if d.swept.cursor = next; next == nil {
			return
		}
	}
}

// TestSweep: old rows go, by the calls that come by; live and fresh ones stay.
func TestSweep(t *testing.T) {
	d := open(t, tempFile(t))
	var live []string
	for i := range 700 {
		key := fmt.Sprintf("key-%03d", i)
		owner, _ := take(t, d, key, time.Hour)
		switch {
		case i%7 == 0:
			live = append(live, key)
		case i%7 < 6: // 1: free since just now; the others will be made old
			release(t, d, key, owner)
		default: // expires
		}
	}
	db := raw(t, d.path)
	mustExec(t, db, `UPDATE dibs_leases SET expires_ms = expires_ms - ? WHERE CAST(substr(lock_key, 5) AS INTEGER) % 7 > 1`, 7_200_000)
	highest := number(t, db, "SELECT max(token) FROM dibs_leases WHERE expires_ms < since_ms")
	mustExec(t, db, "INSERT INTO dibs_waiters VALUES (x'01', 'gone', 1, 5), (x'01', 'future', 2, 1e15)")
	// No more than a few hundred calls of others clean it all.
	for range 500 {
		owner, _ := take(t, d, "other", time.Hour)
		release(t, d, "other", owner)
	}
	if n := number(t, db, "SELECT count(*) FROM dibs_leases"); n != int64(2*len(live))+1 {
		t.Errorf("%d rows are left, want %d", n, 2*len(live)+1)
	}
	if n := number(t, db, "SELECT value FROM dibs_meta WHERE name = 'token_floor'"); n < highest {
		t.Errorf("token floor %d, but %d was cleaned away", n, highest)
	}
	d.swept.last = time.Time{} // a second later
	owner, _ := take(t, d, "other", time.Hour)
	release(t, d, "other", owner)
	if n := number(t, db, "SELECT count(*) FROM dibs_waiters"); n != 0 {
		t.Error(n, "dead waiters are left")
	}
	records, err := d.List(t.Context(), "key-")
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, r := range records {
		keys = append(keys, r.Key)
	}
	if !slices.Equal(keys, live) {
		t.Errorf("live leases: %d, want %d", len(keys), len(live))
	}
}

func TestRenew(t *testing.T) {
	d := open(t, tempFile(t))
	ctx := t.Context()
	a, _ := take(t, d, "a", time.Hour)
	b, _ := take(t, d, "b\x00'", time.Hour)
	broken, token := take(t, d, "broken", time.Hour)
	kept, _ := take(t, d, "kept", time.Hour)
	old, _ := take(t, d, "old", time.Hour)
	if _, err := d.Break(ctx, dibsdriver.BreakParams{Key: "broken", Token: token + 1023}); err != nil {
		t.Fatal(err)
	}
	if err := d.Release(ctx, dibsdriver.ReleaseParams{Key: "kept", Owner: kept, Keep: time.Hour}); err != nil {
		t.Fatal(err)
	}
	db := raw(t, d.path)
	mustExec(t, db, "UPDATE dibs_leases SET expires_ms = "+now+" WHERE lock_key = CAST('old' AS BLOB)")
	answers, err := d.Renew(ctx, []dibsdriver.Renewal{
		{Key: "a", Owner: newOwner(), TTL: 3 * time.Hour}, // a stranger with our key
		{Key: "a", Owner: a, TTL: 2 * time.Hour},
		{Key: "b\x00'", Owner: b, TTL: time.Minute}, // never to an earlier time
		{Key: "b\x00'", Owner: b, TTL: time.Second},
		{Key: "broken", Owner: broken, TTL: time.Hour},
		{Key: "kept", Owner: kept, TTL: time.Hour},
		{Key: "old", Owner: old, TTL: time.Hour},
		{Key: "A", Owner: a, TTL: time.Hour},
		{Key: "a", Owner: a, TTL: 0},
		{Key: "a", Owner: strings.ToUpper(a), TTL: time.Hour},
	})
	want := []dibsdriver.RenewAnswer{
		dibsdriver.Lost, dibsdriver.Renewed, dibsdriver.Renewed, dibsdriver.Renewed, dibsdriver.Lost, dibsdriver.Lost, dibsdriver.Lost,
		dibsdriver.Lost, dibsdriver.Refused, dibsdriver.Lost,
	}
	if err != nil || !slices.Equal(answers, want) {
		t.Errorf("%v, %v; want %v", answers, err, want)
	}
	for key, hours := range map[string]int64{"a": 2, "b\x00'": 1, "broken": 1, "kept": 1} {
		left := number(t, db, "SELECT expires_ms - "+now+" FROM dibs_leases WHERE lock_key = ?", []byte(key))
		if left > hours*3_600_000 || left < hours*3_600_000-60_000 {
			t.Errorf("%q has %d ms left", key, left)
		}
	}
}

// TestRenewCost: a thousand leases among many other rows are a handful of statements, and each lease is found by its key.
func TestRenewCost(t *testing.T) {
	d, c := openCounting(t)
	if err := d.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	db := raw(t, d.path)
	mustExec(t, db, `WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 19999)
		INSERT INTO dibs_leases SELECT CAST(printf('key-%05d', i) AS BLOB), i, printf('%026d', i), 9e15, 0, 1, '', '' FROM n`)
	mustExec(t, db, "UPDATE dibs_leases SET expires_ms = "+now+" + 60000")
	var leases []dibsdriver.Renewal
	for i := range 1000 {
		leases = append(leases, dibsdriver.Renewal{Key: fmt.Sprintf("key-%05d", i*17), Owner: fmt.Sprintf("%026d", i*17), TTL: time.Hour})
	}
	for range 2 {
		c.take()
		answers, err := d.Renew(t.Context(), leases)
		if err != nil || slices.ContainsFunc(answers, func(a dibsdriver.RenewAnswer) bool { return a != dibsdriver.Renewed }) {
			t.Fatal(err, answers)
		}
	}
	if got := c.take(); !slices.Equal(got, []string{"BEGIN", "SELECT", "WITH", "WITH", "COMMIT"}) {
		t.Errorf("statements: %v", got)
	}
	// Whatever the table was like when somebody ran ANALYZE.
	for _, change := range []string{"SELECT 1", "ANALYZE", "DELETE FROM dibs_leases WHERE lock_key > x'6b65792d303030'", "ANALYZE"} {
		mustExec(t, db, change)
		plan := planOf(t, db, d.q.renew, "[]", 0)
		if !slices.ContainsFunc(plan, func(s string) bool { return strings.HasPrefix(s, "SEARCH l USING PRIMARY KEY (lock_key=?)") }) {
			t.Errorf("the leases are not found by their key:\n%s", strings.Join(plan, "\n"))
		}
	}
}

func planOf(t *testing.T, db *sql.DB, query string, args ...any) (plan []string) {
	t.Helper()
	rows, err := db.Query("EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, detail)
	}
	return plan
}

// TestPlans: nothing that is asked often reads a whole table.
func TestPlans(t *testing.T) {
	d := open(t, tempFile(t))
	if err := d.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, args := d.listQuery("p")
	for _, q := range []string{d.q.look, d.q.line, d.q.takeFree, d.q.extend, d.q.ask, d.q.leave, d.q.dropWaiters, d.q.release, d.q.window, d.q.sweep, list} {
		a := args
		if q != list {
			a = make([]any, highestParameter(q))
		}
		for _, step := range planOf(t, raw(t, d.path), q, a...) {
			if strings.HasPrefix(step, "SCAN dibs_") || step == "SCAN l" || step == "SCAN f" {
				t.Errorf("%s\n%s", step, q)
			}
		}
	}
}

func highestParameter(q string) (n int) {
	for i := 1; i < 10; i++ {
		if strings.Contains(q, fmt.Sprintf("?%d", i)) {
			n = i
		}
	}
	return n
}

// TestStatements: what one call costs.
func TestStatements(t *testing.T) {
	d, c := openCounting(t)
	owner, _ := take(t, d, "k", time.Hour)
	release(t, d, "k", owner)
	d.swept.last = time.Now().Add(time.Hour) // no sweep meanwhile
	c.take()
	owner, _ = take(t, d, "k", time.Hour)
	if got := c.take(); !slices.Equal(got, []string{"INSERT"}) {
		t.Errorf("acquire: %v", got)
	}
	ask(t, d, "k", "w")
	c.take()
	ask(t, d, "k", "w")
	if got := c.take(); !slices.Equal(got, []string{"SELECT"}) {
		t.Errorf("poll: %v", got)
	}
	release(t, d, "k", owner)
	if got := c.take(); !slices.Equal(got, []string{"UPDATE"}) {
		t.Errorf("release: %v", got)
	}
}

func TestList(t *testing.T) {
	d := open(t, tempFile(t))
	keys := []string{"a", "a%", "a_", "a\\", "a'", "ab", "aé", "A", "b", "\x00", "a\x00b", "\U0010ffff", "a\U0010ffff", "zz"}
	for _, k := range keys {
		take(t, d, k, time.Hour)
	}
	owner, _ := take(t, d, "a-free", time.Hour)
	release(t, d, "a-free", owner)
	take(t, d, "a-expired", time.Hour)
	mustExec(t, raw(t, d.path), "UPDATE dibs_leases SET expires_ms = "+now+" WHERE lock_key = CAST('a-expired' AS BLOB)")
	for _, prefix := range []string{"", "a", "a%", "a_", "a\\", "a'", "a\x00", "A", "\x00", "\U0010ffff", "\xf4\x8f", "\xff", "none"} {
		var want, got []string
		for _, k := range keys {
			if strings.HasPrefix(k, prefix) {
				want = append(want, k)
			}
		}
		slices.Sort(want)
		records, err := d.List(t.Context(), prefix)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			got = append(got, r.Key)
			if r.Holder != "h" || r.Note != "n" || r.ExpiresIn <= 0 || r.ExpiresIn > time.Hour || r.Token == 0 || time.Since(r.Since).Abs() > time.Minute {
				t.Errorf("%+v", r)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("prefix %q: %q, want %q", prefix, got, want)
		}
	}
	for prefix, want := range map[string]string{"a": "b", "a\xff": "b", "a\xff\xff": "b", "\xff": "", "": ""} {
		if got := string(after(prefix)); got != want {
			t.Errorf("after(%q) = %q", prefix, got)
		}
	}
}
