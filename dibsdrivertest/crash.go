package dibsdrivertest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// Crash tests a store that is a [Crasher]: its server is killed while clients take and release keys as fast as they can, and what it has acknowledged is
// there when it is started again. All that the guarantees S1 and S4 promise rests on it.
func Crash(t *testing.T, f Factory) {
	e := newEnv(t, &f, false)
	drivers := []dibsdriver.Driver{e.driver(), e.driver()}
	limits, err := drivers[0].Limits()
	e.ok(err, "limits")
	highest := make(map[string]int64)
	for round := range 2 {
		var mu sync.Mutex
		held, freed := make(map[string]acked), make(map[string]acked)
		var all sync.WaitGroup
		for i := range 8 {
			d := drivers[i%len(drivers)]
			all.Go(func() {
				for n := range 500 { // the store may be quicker than the kill
					p := e.params(fmt.Sprint("round ", round, " key ", i, "-", n))
					if limits.SessionTTL == 0 {
						p.TTL = time.Hour // what was lost has not just expired
					}
					r, err := d.Acquire(e.Context(), p)
					if err != nil || !r.Acquired {
						return
					}
					mu.Lock()
					held[p.Key] = acked{p.Owner, r.Token}
					mu.Unlock()
					if n%3 > 0 {
						continue
					}
					mu.Lock()
					delete(held, p.Key) // nobody knows until it is acknowledged
					mu.Unlock()
					if err := d.Release(e.Context(), dibsdriver.ReleaseParams{Key: p.Key, Owner: p.Owner}); err != nil {
						return
					}
					mu.Lock()
					freed[p.Key] = acked{p.Owner, r.Token}
					mu.Unlock()
				}
			})
		}
		e.until(30*time.Second, "there is something to lose", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(held) >= 40 && len(freed) >= 20
		})
		restart := e.store.(Crasher).Crash(e)
		all.Wait()
		restart()
		t.Logf("crash %d: %d acquisitions and %d releases had been acknowledged", round+1, len(held), len(freed))
		e.afterCrash(drivers[0], held, freed, highest)
	}
}

// acked is what a store has acknowledged.
type acked struct {
	owner string
	token int64
}

func (e *env) afterCrash(d dibsdriver.Driver, held, freed map[string]acked, highest map[string]int64) {
	e.Helper()
	for key, a := range freed {
		if l := e.store.Peek(e, key); l.Held {
			e.Errorf("%q was released, and is held after the crash: %+v", key, l)
		}
		highest[key] = max(highest[key], a.token)
	}
	for key, a := range held {
		if l := e.store.Peek(e, key); !l.Held || l.Token != a.token {
			e.Errorf("%q was acquired with token %d, and after the crash is %+v", key, a.token, l)
			continue
		}
		e.ok(d.Release(e.Context(), dibsdriver.ReleaseParams{Key: key, Owner: a.owner}), "releasing what was held over a crash")
		highest[key] = max(highest[key], a.token)
	}
	for key, token := range highest {
		p := e.params(key)
		r, err := d.Acquire(e.Context(), p)
		if err != nil {
			e.Fatalf("acquire after the crash: %v", err)
		}
		if !r.Acquired { // by a request that was never answered
			continue
		}
		if r.Token <= token {
			e.Errorf("%q: token %d after the crash, %d before", key, r.Token, token)
		}
		highest[key] = r.Token
		e.ok(d.Release(e.Context(), dibsdriver.ReleaseParams{Key: key, Owner: p.Owner}), "release")
	}
}
