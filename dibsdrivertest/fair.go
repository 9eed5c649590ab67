package dibsdrivertest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

var fairCases = []testcase{
	{name: "L3/nobody_starves_across_processes", run: fairProcesses, needs: realTime | alone},
	{name: "L3/single_waiter_among_busy_processes", run: fairLone, needs: heavy},
	{name: "B27/waiters_for_dead_keys", run: deadKeys},
	{name: "B27/two_for_one_dead_key", run: deadRace},
}

// fairProcesses: two processes of several workers each take the key again and again.
func fairProcesses(e *env) {
	lockers := []*dibs.Locker{e.locker(), e.locker(), e.locker()}
	for _, l := range lockers { // all of them, before the first has all turns
		e.connect(l)
	}
	counts := make([]atomic.Int32, len(lockers))
	long := 3*time.Second + e.f.trips(60)
	ctx, cancel := context.WithTimeout(e.Context(), long)
	defer cancel()
	var inside atomic.Int32
	var wg sync.WaitGroup
	for i, l := range lockers {
		for range 4 {
			wg.Go(func() {
				for ctx.Err() == nil {
					lock, _, err := l.Acquire(ctx, "k")
					if err != nil {
						continue
					}
					if inside.Add(1) != 1 && lock.Err() == nil {
						e.Error("two holders")
					}
					counts[i].Add(1)
					time.Sleep(2 * time.Millisecond)
					inside.Add(-1)
					lock.Release()
				}
			})
		}
	}
	wg.Wait()
	var total int32
	for i := range counts {
		total += counts[i].Load()
	}
	for i := range counts {
		if share := float64(counts[i].Load()) / float64(total); total > 60 && share < 0.5/float64(len(counts)) {
			e.Errorf("process %d had the key %d times of %d", i, counts[i].Load(), total)
		}
	}
	if total < 10 {
		e.Errorf("the key was taken %d times in %s", total, long)
	}
}

// fairLone: one waiter against a process in which many wait, again and again.
func fairLone(e *env) {
	busy, lone := e.locker(), e.locker()
	ctx, cancel := context.WithCancel(e.Context())
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for ctx.Err() == nil {
				busy.Do(ctx, "k", func(context.Context) error { time.Sleep(5 * time.Millisecond); return nil })
			}
		})
	}
	for range 5 {
		began := time.Now()
		e.free(lone, "k", 5*time.Second)
		if d := time.Since(began); d > time.Second+e.slack {
			e.Errorf("the lone waiter waited %s", d)
		}
		time.Sleep(20 * time.Millisecond)
	}
	cancel()
	wg.Wait()
}

// deadKeys: no clean-up has to come round before the keys of a dead holder are free.
func deadKeys(e *env) {
	a, faults := e.faultyLocker(dibs.Config{TTL: 2 * e.ttl})
	if e.f.session(e) {
		a, faults = e.faultyLocker(dibs.Config{})
	}
	b := e.lockerWith(dibs.Config{TTL: max(e.ttl, 10*time.Second)})
	if e.f.session(e) {
		b = e.locker()
	}
	const n = 50
	for i := range n {
		e.hold(a, fmt.Sprint("k", i))
	}
	last := time.Now()
	faults.OnAll(FailBefore(errAway))
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			lock, _, err := b.Acquire(e.Context(), fmt.Sprint("k", i), dibs.MaxWait(2*e.ttl+2*time.Second))
			if err != nil {
				e.Errorf("key %d: %v", i, err)
				return
			}
			lock.Release()
		})
	}
	wg.Wait()
	e.took(last, 0, 8*e.ttl/3+e.slack, "taking 50 dead keys")
}

// deadRace: exactly one of two gets a key in the moment in which it expires.
func deadRace(e *env) {
	rounds := 8
	if e.exact {
		rounds = 200
	}
	d := e.driver()
	limits, _ := d.Limits()
	var wg sync.WaitGroup
	for i := range rounds {
		wg.Go(func() {
			a, b := e.driver(), e.driver()
			key := fmt.Sprint("k", i)
			p := e.params(key)
			if limits.SessionTTL == 0 {
				p.TTL = max(limits.MinTTL, 200*time.Millisecond)
			}
			r, err := d.Acquire(e.Context(), p)
			if err != nil || !r.Acquired {
				e.Errorf("acquire: %+v, %v", r, err)
				return
			}
			var winners atomic.Int32
			var race sync.WaitGroup
			end := time.Now().Add(p.TTL + time.Second)
			for _, d := range []dibsdriver.Driver{a, b} {
				race.Go(func() {
					token, err := e.spin(d, key, end)
					if err != nil {
						e.Errorf("acquire: %v", err)
					}
					if token != 0 {
						winners.Add(1)
						if token <= r.Token {
							e.Errorf("token %d after %d", token, r.Token)
						}
					}
				})
			}
			race.Wait()
			if winners.Load() != 1 {
				e.Errorf("%d winners", winners.Load())
			}
		})
	}
	wg.Wait()
}

// spin asks for a key until it has it for a long time, or the end has come.
func (e *env) spin(d dibsdriver.Driver, key string, end time.Time) (token int64, err error) {
	for time.Now().Before(end) {
		p := e.params(key)
		p.TTL = max(p.TTL, 30*time.Second)
		r, err := d.Acquire(e.Context(), p)
		if err != nil || r.Acquired {
			return r.Token, err
		}
		time.Sleep(time.Millisecond)
	}
	return 0, nil
}
