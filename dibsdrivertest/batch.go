package dibsdrivertest

import (
	"fmt"
	"sync"
	"time"

	"github.com/dibs-go/dibs"
)

var batchCases = []testcase{
	{name: "L4/a_thousand_leases", run: thousand, needs: realTime | alone},
}

// thousand leases cost a handful of requests for each third of a TTL, and no goroutine each.
func thousand(e *env) {
	ttl := 3*time.Second + e.f.trips(30)
	if e.f.session(e) {
		ttl = e.ttl
	}
	a, faults := e.faultyLocker(dibs.Config{TTL: ttl})
	base := e.goroutines()
	const n = 1000
	locks := make([]*dibs.Lock, n)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < n; i += 8 {
				lock, _, err := a.Acquire(background(), fmt.Sprint("key ", i), dibs.MaxWait(10*time.Second))
				if err != nil {
					e.Errorf("acquire: %v", err)
				}
				locks[i] = lock
			}
		})
	}
	wg.Wait()
	time.Sleep(ttl / 3) // the first renewals bring together what was acquired apart
	before := faults.Calls(OpRenew)
	began := time.Now()
	for time.Since(began) < ttl {
		if now := e.goroutines(); now >= base+30 {
			e.Fatalf("%d goroutines for %d leases", now-base, n)
		}
		time.Sleep(200 * time.Millisecond)
	}
	thirds := float64(time.Since(began)) / float64(ttl/3)
	if calls := faults.Calls(OpRenew) - before; float64(calls) > 6*(thirds+1) {
		e.Errorf("%d renewals in %.1f thirds of a TTL", calls, thirds)
	}
	for i, lock := range locks {
		if lock.Err() != nil {
			e.Fatalf("lock %d: %v", i, lock.Err())
		}
	}
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < n; i += 8 {
				if err := locks[i].Release(); err != nil {
					e.Errorf("release: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if records, err := e.driver().List(e.Context(), ""); err != nil || len(records) != 0 {
		e.Errorf("%d leases are left, %v", len(records), err)
	}
}
