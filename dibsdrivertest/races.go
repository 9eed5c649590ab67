package dibsdrivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

var raceCases = []testcase{
	{name: "S2/B18/release_at_expiry", run: releaseAtExpiry},
	{name: "S1/hammer", run: hammer, needs: heavy},
	{name: "B41/no_deadlock_reaches_a_caller", run: noDeadlock, needs: heavy},
	{name: "B41/nor_with_a_short_ttl_and_clean_up", run: churn, needs: churnNeeds()},
	{name: "S6/methods_of_one_lock_at_once", run: methodsAtOnce},
}

// releaseAtExpiry fires a release within a few milliseconds of the lease's end while another spins for the key: who was told
// "acquired" always finds its own.
func releaseAtExpiry(e *env) {
	rounds := 50
	if e.exact || Long() {
		rounds = 200
	}
	d := e.driver()
	limits, _ := d.Limits()
	ttl := max(limits.MinTTL, 200*time.Millisecond)
	if limits.SessionTTL > 0 {
		ttl = limits.SessionTTL
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range rounds {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			key := fmt.Sprint("k", i)
			p := e.params(key)
			p.TTL = ttl
			began := time.Now()
			if r, err := d.Acquire(e.Context(), p); err != nil || !r.Acquired {
				e.Errorf("acquire: %+v, %v", r, err)
				return
			}
			var late sync.WaitGroup
			late.Go(func() {
				time.Sleep(time.Until(began.Add(ttl + rand.N(10*time.Millisecond) - 5*time.Millisecond)))
				err := d.Release(e.Context(), dibsdriver.ReleaseParams{Key: key, Owner: p.Owner})
				if err != nil && !errors.Is(err, dibsdriver.ErrLost) {
					e.Errorf("release: %v", err)
				}
				answers, err := d.Renew(e.Context(), []dibsdriver.Renewal{{Key: key, Owner: p.Owner, TTL: time.Hour}})
				if err != nil || answers[0] != dibsdriver.Lost {
					e.Errorf("renewing what was released: %v, %v", answers, err)
				}
			})
			q := e.params(key)
			q.TTL = max(q.TTL, 30*time.Second)
			time.Sleep(time.Until(began.Add(ttl - 20*time.Millisecond))) // whoever asks before that gets nothing but tired
			for end := began.Add(ttl + 10*time.Second); ; time.Sleep(500 * time.Microsecond) {
				q.Owner = newOwner()
				r, err := d.Acquire(e.Context(), q)
				if err == nil && r.Acquired {
					break
				}
				if err != nil || time.Now().After(end) {
					e.Errorf("acquire: %+v, %v", r, err)
					return
				}
			}
			late.Wait()
			l := e.store.Peek(e, key)
			if !l.Held || l.Left > q.TTL || l.Left < q.TTL-5*time.Second {
				e.Errorf("told acquired for %s, and found %+v", q.TTL, l)
			}
			if answers, err := d.Renew(e.Context(), []dibsdriver.Renewal{{Key: key, Owner: q.Owner, TTL: q.TTL}}); err != nil || answers[0] != dibsdriver.Renewed {
				e.Errorf("told acquired, and renewing says %v, %v", answers, err)
			}
		})
	}
	wg.Wait()
}

// hammer: many goroutines of several processes on few keys, and one at a time in each.
func hammer(e *env) {
	lockers := []*dibs.Locker{e.locker(), e.locker(), e.locker()}
	inside := make([]atomic.Int32, 4)
	last := make([]atomic.Int64, 4)
	long := 2*time.Second + e.f.trips(20)
	ctx, cancel := context.WithTimeout(e.Context(), long)
	defer cancel()
	var wg sync.WaitGroup
	var rounds atomic.Int64
	for i := range 18 {
		l := lockers[i%len(lockers)]
		wg.Go(func() {
			for ctx.Err() == nil {
				n := rand.IntN(len(inside))
				try := rand.IntN(3) == 0
				opts := []dibs.Option{dibs.MaxWait(rand.N(200*time.Millisecond + e.f.trips(10)))}
				if try {
					opts = []dibs.Option{dibs.MaxWait(0)}
				}
				lock, _, err := l.Acquire(ctx, fmt.Sprint("k", n), opts...)
				if err != nil {
					if !errors.Is(err, dibs.ErrBusy) && ctx.Err() == nil && !errors.Is(err, dibs.ErrUnavailable) {
						e.Errorf("acquire: %v", err)
					}
					continue
				}
				rounds.Add(1)
				if inside[n].Add(1) != 1 && lock.Err() == nil {
					e.Error(unsafe, "two holders")
				}
				if before := last[n].Swap(lock.Token()); before >= lock.Token() && lock.Err() == nil {
					e.Error(unsafe, "token", lock.Token(), "after", before)
				}
				time.Sleep(rand.N(3 * time.Millisecond))
				inside[n].Add(-1)
				lock.Release()
			}
		})
	}
	wg.Wait()
	if rounds.Load() == 0 {
		e.Errorf("no rounds in %s", long)
	}
}

func methodsAtOnce(e *env) {
	a := e.locker()
	for range 10 {
		lock, work := e.hold(a, "k")
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				time.Sleep(rand.N(20 * time.Millisecond))
				switch i % 6 {
				case 0:
					lock.Release()
				case 1:
					if err := lock.Verify(background()); err != nil && !errors.Is(err, dibs.ErrReleased) {
						e.Errorf("verify: %v", err)
					}
				case 2:
					if err := lock.Err(); err != nil && !errors.Is(err, dibs.ErrReleased) {
						e.Errorf("err: %v", err)
					}
				case 3:
					if r := lock.Remaining(); r < 0 || r > e.ttl {
						e.Errorf("remaining: %s", r)
					}
				case 4:
					if inner, _, err := a.TryAcquire(context.WithoutCancel(work), "k", dibs.Reenter()); err == nil {
						inner.Release()
					} else if !errors.Is(err, dibs.ErrBusy) && !errors.Is(err, dibs.ErrReleased) {
						e.Errorf("re-entry: %v", err)
					}
				case 5:
					if _, ok := dibs.FromContext(work, "k"); !ok {
						e.Error("no lock in the context")
					}
				}
			})
		}
		wg.Wait()
		e.is(lock.Release(), dibs.ErrReleased, "release")
		e.until(time.Second+e.slack, "free", func() bool { return !e.store.Peek(e, "k").Held })
	}
}

// noDeadlock: many workers take, renew and release few keys, some of which are new, and no store's own quarrels (a deadlock, a lock wait time-out, a
// transaction to be repeated) reach any of them: every take, renewal and release succeeds, and there is one holder at a time.
func noDeadlock(e *env) {
	const processes, workers, keys, least = 4, 4, 5, 100
	inside := make(map[string]*atomic.Int32)
	for i := range keys {
		inside[fmt.Sprint("k", i)] = new(atomic.Int32)
	}
	began, end := time.Now(), 2*time.Second
	var rounds atomic.Int64
	var wg sync.WaitGroup
	for p := range processes {
		l := e.lockerWith(dibs.Config{RequestTimeout: 30 * time.Second}).With(e.lasting()...) // a request may take long, but must not fail
		for w := range workers {
			wg.Go(func() {
				for n := 0; n < 100 && (time.Since(began) < end || rounds.Load() < least); n++ { // in a bubble time stands still
					key := fmt.Sprint("k", (p+w+n)%keys)
					if n%5 == 4 { // a row that is not there yet, asked for by one in each process at about the same time
						key = fmt.Sprint("new ", w, " ", n)
					}
					err := l.Do(background(), key, func(ctx context.Context) error {
						if c := inside[key]; c != nil {
							if c.Add(1) != 1 {
								e.Error(unsafe, "two holders of", key)
							}
							defer c.Add(-1)
						}
						lock, _ := dibs.FromContext(ctx, key)
						return lock.Verify(ctx)
					})
					if err != nil {
						e.Errorf("%q: %v", key, err)
						return
					}
					rounds.Add(1)
				}
			})
		}
	}
	wg.Wait()
	if n := rounds.Load(); n < least {
		e.Errorf("%d rounds prove nothing", n)
	}
}
