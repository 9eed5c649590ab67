package dibsmysql

import (
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// long tells that the tests may take minutes.
var long = os.Getenv("DIBS_TEST_LONG") == "1"

// age lets a key's row look as if all that happened to it had happened earlier by d.
func (b *bed) age(t testing.TB, key string, d time.Duration) {
	t.Helper()
	us := d.Microseconds()
	b.must(t, b.admin, "UPDATE dibs_leases SET fence = fence - ?, since = since - INTERVAL ? MICROSECOND, "+
		"expires = IF(owner IS NULL, expires, expires - INTERVAL ? MICROSECOND) WHERE lock_key = ?", us, us, us, []byte(key))
}

// oldRows makes n rows of keys that were released an hour ago.
func (b *bed) oldRows(t testing.TB, prefix string, n int) {
	t.Helper()
	digits := make([]string, 10)
	for i := range digits {
		digits[i] = fmt.Sprintf("SELECT %d AS n", i)
	}
	ten := "(" + strings.Join(digits, " UNION ALL ") + ")"
	for begin := 0; begin < n; begin += 10_000 {
		b.must(t, b.admin, "INSERT INTO dibs_leases (lock_key, fence, owner, expires, since, is_open) "+
			"SELECT CONCAT(?, LPAD(? + a.n + 10 * b.n + 100 * c.n + 1000 * d.n, 8, '0')), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - 3600000000, "+
			"NULL, '1970-01-01', UTC_TIMESTAMP(6) - INTERVAL 1 HOUR, 0 FROM "+ten+" AS a, "+ten+" AS b, "+ten+" AS c, "+ten+" AS d "+
			"WHERE ? + a.n + 10 * b.n + 100 * c.n + 1000 * d.n < ?", []byte(prefix), begin, begin, n)
	}
}

// keys are those that have rows.
func (b *bed) keys(t testing.TB) string {
	t.Helper()
	var keys sql.NullString
	if err := b.admin.QueryRow("SELECT GROUP_CONCAT(lock_key ORDER BY lock_key SEPARATOR ' ') FROM dibs_leases").Scan(&keys); err != nil {
		t.Fatal(err)
	}
	return keys.String
}

func (b *bed) meta(t testing.TB, name string) int64 {
	t.Helper()
	return b.number(t, "SELECT value FROM dibs_meta WHERE name = ?", name)
}

// swept requires that a pass removes n rows.
func swept(t testing.TB, d *Driver, retention time.Duration, n int64) SweepReport {
	t.Helper()
	r, err := d.Sweep(within(t), retention)
	if err != nil || r.Err != nil || r.Rows != n {
		t.Fatalf("%+v, %v, and not %d rows", r, err, n)
	}
	return r
}

// freed takes a key and releases it.
func freed(t testing.TB, d *Driver, key string) (token int64) {
	t.Helper()
	owner, token := take(t, d, key, 30*time.Second)
	release(t, d, key, owner)
	return token
}

// nothingOpen: the server has no transaction, no statement and no turn of ours.
func (b *bed) nothingOpen(t testing.TB) {
	t.Helper()
	eventually(t, "no transaction is open", func() bool {
		// The server refreshes this view only if nobody has read it for 100 ms; other tests do.
		time.Sleep(200 * time.Millisecond)
		return b.number(t, "SELECT COUNT(*) FROM information_schema.innodb_trx AS x JOIN information_schema.processlist AS p "+
			"ON p.id = x.trx_mysql_thread_id WHERE p.db = DATABASE() AND p.id <> CONNECTION_ID()") == 0
	})
	eventually(t, "no statement is under way", func() bool { return b.threads(t) == 0 }) // but for that of a baton, which is soon over
	if turn := b.meta(t, "sweep"); turn > 0 {
		t.Errorf("the turn is taken until %d", turn)
	}
}

// setBack are the parameters for sessions whose clock is behind the server's, and stands.
func (b *bed) setBack(t testing.TB, by time.Duration) string {
	t.Helper()
	return fmt.Sprintf("timestamp=%d", b.number(t, "SELECT FLOOR(UNIX_TIMESTAMP())")-int64(by.Seconds()))
}
