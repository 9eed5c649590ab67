package dibsmysql

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// TestFact49_SweepRace: keys are taken, renewed and released at the moment when their rows would be removed. No lease is lost, tokens rise, and no deadlock of the server
// reaches anybody, neither those who take locks nor those who sweep.
func TestFact49_SweepRace(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]bool{"skipping": false, "waiting": true} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, b *bed) { race(t, b, plain) })
		})
	}
}

func race(t *testing.T, b *bed, plain bool) {
	const (
		workers, keys = 16, 1500
		retention     = minRetention
		wantRemoved   = 600
		wantStayed    = 200 // keys that were taken within the retention
	)
	db := b.pool(t, "")
	db.SetMaxOpenConns(workers + 4)
	db.SetMaxIdleConns(workers + 4)
	d := drive(t, db)
	sweeps := b.driver(t, "") // its own leases would be longer than the retention
	if plain {
		sweeps.asOld(t)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	var removed, stayed atomic.Int64
	var mu sync.Mutex
	last := make(map[string]int64)
	var wg sync.WaitGroup
	fail := func(err error) {
		t.Error(err)
		cancel()
	}
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				key := fmt.Sprint("k", rand.IntN(keys))
				p := params(key, 20*time.Second)
				d.busy.forget(key)
				r, err := d.Acquire(within(t), p)
				if err != nil {
					fail(err)
					return
				}
				if !r.Acquired {
					continue
				}
				mu.Lock()
				before := last[key]
				last[key] = r.Token
				mu.Unlock()
				switch age := time.Duration(r.Token-before) * time.Microsecond; {
				case r.Token < before+dibsdriver.TokenStep:
					fail(fmt.Errorf("%s: token %d, then %d", key, before, r.Token))
				case before != 0 && age < retention:
					stayed.Add(1)
				}
				if rand.IntN(2) == 0 {
					answers, err := d.Renew(within(t), []dibsdriver.Renewal{{Key: key, Owner: p.Owner, TTL: 20 * time.Second}})
					if err != nil || answers[0] == dibsdriver.Lost { // Unknown: the row was locked at the moment
						fail(fmt.Errorf("renewing %s: %v, %v", key, answers, err))
					}
				}
				if err := d.Release(within(t), dibsdriver.ReleaseParams{Key: key, Owner: p.Owner}); err != nil {
					fail(fmt.Errorf("a lease was lost: %w", err))
				}
			}
		})
	}
	for ctx.Err() == nil && (removed.Load() < wantRemoved || stayed.Load() < wantStayed) {
		r, err := sweeps.Sweep(within(t), retention)
		if err != nil {
			fail(err)
		}
		removed.Add(r.Rows)
	}
	cancel()
	wg.Wait()
	t.Logf("%d rows removed, %d keys taken soon after", removed.Load(), stayed.Load())
	if removed.Load() < wantRemoved || stayed.Load() < wantStayed {
		t.Errorf("%d rows were removed, and %d keys taken again within the retention: that shows too little", removed.Load(), stayed.Load())
	}
}

// TestSweepTurns: one process at a time; who dies holds the others up for the time of a turn at most, and who was frozen stops when it finds its turn taken.
func TestSweepTurns(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		ctx := within(t)
		d, other := b.driver(t, ""), b.driver(t, "")
		swept(t, d, 0, 0)
		due := func(want bool, every time.Duration) {
			t.Helper()
			if got, err := other.sweepDue(ctx, every); got != want || err != nil {
				t.Errorf("due: %v, %v", got, err)
			}
		}
		due(false, time.Hour)
		due(true, time.Nanosecond)
		b.must(t, b.admin, "UPDATE dibs_meta SET value = value - 3600000000 WHERE name = 'sweep'") // an hour after the clock was set back
		due(true, time.Hour)
		b.must(t, b.admin, "DELETE FROM dibs_meta WHERE name = 'sweep'") // tables of an earlier release
		due(true, time.Hour)

		first, second := sweepTurn{d: d}, sweepTurn{d: other}
		if err := first.take(ctx); err != nil {
			t.Fatal(err)
		}
		due(false, time.Nanosecond)
		if err := second.take(ctx); !errors.Is(err, dibs.ErrBusy) {
			t.Errorf("two have the turn: %v", err)
		}
		first.kept = time.Time{}
		if err := first.keep(ctx); err != nil {
			t.Error(err)
		}
		if until := b.meta(t, "sweep"); until != first.until {
			t.Errorf("until %d, and not %d", until, first.until)
		}
		// It lapses.
		b.must(t, b.admin, "UPDATE dibs_meta SET value = value - ? WHERE name = 'sweep'", sweepTurnTTL.Microseconds())
		due(true, time.Hour)
		if err := second.take(ctx); err != nil {
			t.Fatal(err)
		}
		first.kept = time.Time{}
		if err := first.keep(ctx); !errors.Is(err, dibs.ErrBusy) || dibsdriver.FateOf(err) == dibsdriver.FateNotApplied {
			t.Errorf("the one that was frozen goes on: %v", err)
		}
		first.end(ctx)
		if until := b.meta(t, "sweep"); until != second.until {
			t.Errorf("it gave up another's turn: %d", until)
		}
		// After the clock was set back by an hour.
		b.must(t, b.admin, "UPDATE dibs_meta SET value = value + 3600000000 WHERE name = 'sweep'")
		due(true, time.Hour)
		swept(t, d, 0, 0)
		b.nothingOpen(t)
	})
}

// TestSweepDead: a process that was killed while it swept.
func TestSweepDead(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		const rows = 100_000
		b.oldRows(t, "k", rows)
		h := startHelper(t, "sweep", b.dsn(b.App, b.database, ""))
		eventually(t, "it sweeps", func() bool { return b.number(t, "SELECT COUNT(*) FROM dibs_leases") < rows })
		if _, err := d.Sweep(within(t), 0); !errors.Is(err, dibs.ErrBusy) {
			t.Errorf("two at once: %v", err)
		}
		h.kill()
		eventually(t, "the server has noticed", func() bool { return b.threads(t) == 0 })
		b.must(t, b.admin, "UPDATE dibs_meta SET value = value - ? WHERE name = 'sweep'", sweepTurnTTL.Microseconds()) // as if that time had passed
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		before := b.number(t, "SELECT COUNT(*) FROM dibs_leases")
		done := make(chan SweepReport, 1)
		go func() {
			r, _ := d.Sweep(ctx, 0)
			done <- r
		}()
		eventually(t, "another goes on", func() bool { return b.number(t, "SELECT COUNT(*) FROM dibs_leases") < before })
		cancel()
		if r := <-done; r.Rows == 0 || before == 0 {
			t.Errorf("%+v, of %d", r, before)
		}
	})
}

// TestSweepLeavesRoom: while old rows are removed, an acquisition and its release take at most twice their usual time.
func TestSweepLeavesRoom(t *testing.T) {
	rows, limit := 20_000, time.Minute
	if long {
		rows, limit = 1_000_000, 10*time.Minute
	}
	onBoth(t, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		for tries := 1; ; tries++ { // another program of this machine may come in between
			usual, during, r := besides(t, b, d, rows, limit)
			t.Logf("%d rows in %s; usually %s, during the pass %s", r.Rows, r.Took.Round(time.Millisecond), usual, during)
			if during <= 2*usual {
				return
			}
			if tries == 3 {
				t.Fatalf("usually %s, during the pass %s", usual, during)
			}
		}
	})
}

// besides measures medians before, during and after a pass.
func besides(t *testing.T, b *bed, d *Driver, rows int, limit time.Duration) (usual, during time.Duration, r SweepReport) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	b.oldRows(t, "old", rows)
	measure := func(goOn func(n int) bool) (times []time.Duration) {
		for n := 0; goOn(n); n++ {
			began := time.Now()
			p := params(fmt.Sprint("job", n%50), 30*time.Second)
			if r, err := d.Acquire(ctx, p); err != nil || !r.Acquired {
				t.Fatal(r, err)
			}
			if err := d.Release(ctx, dibsdriver.ReleaseParams{Key: p.Key, Owner: p.Owner}); err != nil {
				t.Fatal(err)
			}
			times = append(times, time.Since(began))
		}
		return times
	}
	median := func(times []time.Duration) time.Duration {
		slices.Sort(times)
		return times[len(times)/2]
	}
	const enough = 300
	before := measure(func(n int) bool { return n < enough })
	done := make(chan SweepReport, 1)
	go func() {
		r, _ := d.Sweep(ctx, 0)
		done <- r
	}()
	beside := measure(func(int) bool {
		select {
		case r = <-done:
			return false
		default:
			return true
		}
	})
	if r.Err != nil || r.Rows != int64(rows) || len(beside) < enough {
		t.Fatalf("%+v, of %d rows, and %d acquisitions meanwhile", r, rows, len(beside))
	}
	after := measure(func(n int) bool { return n < enough })
	return median(append(before, after...)), median(beside), r
}
