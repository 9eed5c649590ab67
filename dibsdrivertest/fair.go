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
						e.Error(unsafe, "two holders")
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

// deadKeys: no clean-up has to come round before the keys of a dead holder are free: each is when its lease has ended, and not before.
func deadKeys(e *env) {
	ttl := 2 * e.ttl
	a, faults := e.faultyLocker(dibs.Config{TTL: 2 * e.ttl})
	if e.f.session(e) {
		ttl = e.ttl
		a, faults = e.faultyLocker(dibs.Config{})
	}
	cfg := dibs.Config{RequestTimeout: 30 * time.Second} // so many at once may take a while
	if !e.f.session(e) {
		cfg.TTL = max(e.ttl, time.Minute)
	}
	b := e.lockerWith(cfg)
	n := 50
	if e.exact || Long() {
		n = 100
	}
	began := make([]time.Time, n)
	for i := range n {
		began[i] = time.Now()
		e.hold(a, fmt.Sprint("k", i))
	}
	faults.OnAll(FailBefore(errAway))
	last := time.Now()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			lock, _, err := b.Acquire(e.Context(), fmt.Sprint("k", i), dibs.MaxWait(ttl+20*time.Second))
			got := time.Now()
			if err != nil {
				e.Errorf("key %d: %v", i, err)
				return
			}
			if d := got.Sub(began[i]); d < ttl-time.Millisecond {
				e.Errorf("key %d: taken over after %s, its TTL was %s", i, d, ttl)
			}
			lock.Release()
		})
	}
	wg.Wait()
	if d := time.Since(last); d > ttl+e.soon(500*time.Millisecond+time.Duration(n)*10*time.Millisecond, last) { // the last of n
		e.Errorf("taking %d dead keys took %s from when they died, their TTL was %s", n, d, ttl)
	}
}

// deadRace: exactly one of two gets a key in the moment in which it expires.
func deadRace(e *env) {
	rounds, lanes := 50, 8
	if e.exact || Long() {
		rounds, lanes = 500, 16
	}
	limits, _ := e.driver().Limits()
	next := make(chan string, rounds)
	for i := range rounds {
		next <- fmt.Sprint("k", i)
	}
	close(next)
	var wg sync.WaitGroup
	for range lanes {
		a, b := e.driver(), e.driver()
		wg.Go(func() {
			for key := range next {
				p := e.params(key)
				if limits.SessionTTL == 0 {
					p.TTL = max(limits.MinTTL, 200*time.Millisecond)
				}
				e.raceFor(p, a, b)
			}
		})
	}
	wg.Wait()
}

func (e *env) raceFor(p dibsdriver.AcquireParams, a, b dibsdriver.Driver) {
	began := time.Now()
	r, err := a.Acquire(e.Context(), p)
	if err != nil || !r.Acquired {
		e.Errorf("acquire: %+v, %v", r, err)
		return
	}
	var winners atomic.Int32
	var race sync.WaitGroup
	time.Sleep(time.Until(began.Add(p.TTL - 20*time.Millisecond))) // as in releaseAtExpiry
	var once sync.Once
	over := make(chan struct{}) // a little after somebody has it, or long after it should have been had
	defer time.AfterFunc(10*time.Second, func() { once.Do(func() { close(over) }) }).Stop()
	for _, d := range []dibsdriver.Driver{a, b} {
		race.Go(func() {
			token, err := e.spin(d, p.Key, over)
			if err != nil {
				e.Errorf("acquire: %v", err)
			}
			if token != 0 {
				winners.Add(1)
				time.AfterFunc(50*time.Millisecond, func() { once.Do(func() { close(over) }) })
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
}

// spin asks for a key until it has it for a long time, or all is over.
func (e *env) spin(d dibsdriver.Driver, key string, over <-chan struct{}) (token int64, err error) {
	for {
		select {
		case <-over:
			return 0, nil
		default:
		}
		p := e.params(key)
		p.TTL = max(p.TTL, 30*time.Second)
		r, err := d.Acquire(e.Context(), p)
		if err != nil || r.Acquired {
			return r.Token, err
		}
		time.Sleep(time.Millisecond)
	}
}
