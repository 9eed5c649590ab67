package dibsmysql

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// seedTable is the lock table that this project began with.
const seedTable = "CREATE TABLE distributed_lock (id BIGINT NOT NULL AUTO_INCREMENT, lock_key VARCHAR(192) NOT NULL, owner VARCHAR(128) NOT NULL, " +
	"expire_time DATETIME NOT NULL, create_time DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (id), UNIQUE KEY uk_lock_key (lock_key), " +
	"KEY idx_expire_time (expire_time)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"

// BenchmarkAlone measures an acquisition and a release with nobody else there, beside the same two statements without the driver, and beside the
// seeds' INSERT and DELETE: in turns, on one server, as ratios of medians.
func BenchmarkAlone(b *testing.B) {
	for _, k := range kinds {
		b.Run(k.name, func(b *testing.B) {
			bed := newBed(b, k.shared(b), true)
			bed.must(b, bed.admin, seedTable)
			db := bed.pool(b, "")
			db.SetMaxIdleConns(8)
			d := drive(b, db)
			ctx := context.Background()
			exec := func(statement string, args ...any) {
				if _, err := db.ExecContext(ctx, statement, args...); err != nil {
					b.Fatal(err)
				}
			}
			contenders := []func(key string){
				func(key string) {
					p := dibsdriver.AcquireParams{Key: key, Owner: newOwner(), TTL: 30 * time.Second, Holder: "host pid 1"}
					if r, err := d.Acquire(ctx, p); err != nil || !r.Acquired {
						b.Fatal(r, err)
					}
					if err := d.Release(ctx, dibsdriver.ReleaseParams{Key: key, Owner: p.Owner}); err != nil {
						b.Fatal(err)
					}
				},
				func(key string) {
					owner := literal(newOwner())
					exec(d.q.acquire.with(literal(key), owner, "30000000", "1024", text("host pid 1"), text("")))
					exec(d.q.release.with(literal(key), owner, d.whetherOthers(d.server.Load(), key)))
				},
				func(key string) {
					owner := newOwner()
					exec("INSERT INTO distributed_lock(lock_key, owner, expire_time) VALUES (?, ?, DATE_ADD(NOW(), INTERVAL ? SECOND))", key, owner, 30)
					exec("DELETE FROM distributed_lock WHERE lock_key = ? AND owner = ?", key, owner)
				},
			}
			times := make([][]time.Duration, len(contenders))
			round := func(i int, record bool) {
				for c := range contenders {
					c = (c + i) % len(contenders) // nobody is always first
					began := time.Now()
					contenders[c](fmt.Sprint("job:", i%50))
					if record {
						times[c] = append(times[c], time.Since(began))
					}
				}
			}
			for i := range 200 {
				round(i, false)
			}
			i := 0
			for b.Loop() {
				round(i, true)
				i++
			}
			var medians [3]float64
			for c := range times {
				slices.Sort(times[c])
				medians[c] = float64(times[c][len(times[c])/2].Microseconds())
			}
			b.ReportMetric(medians[0], "µs/dibs")
			b.ReportMetric(medians[1], "µs/sql")
			b.ReportMetric(medians[2], "µs/seed")
			b.ReportMetric(medians[0]/medians[1], "dibs/sql")
			b.ReportMetric(medians[0]/medians[2], "dibs/seed")
		})
	}
}
