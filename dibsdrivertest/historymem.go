package dibsdrivertest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs"
)

// History runs random work by several processes under kill, freeze and slow stores (in a bubble: by several Lockers whose stores go
// wrong), and checks that what they saw is what a leased lock does.
//
// It prints the seed of its choices. Time and scheduling are not of its choice, so that a run with the same seed does the same things, but not at the
// same nanosecond.
func History(t *testing.T, f Factory) {
	if !f.Bubble {
		historyOfProcesses(t, f)
		return
	}
	span := 2 * time.Minute
	if Long() {
		span = 20 * time.Minute
	}
	var h *history
	var n tally
	for try := 0; try < 3 && n.refused == 0; try++ { // it is rare that a writer comes just too late
		h = historyInBubble(t, f, newSeed(t), span)
		n = h.tally()
		t.Logf("%s: %s", f.Name, n)
	}
	if n.outcomes[lost] < enough/2 || n.outcomes[released] < enough || n.refused == 0 {
		t.Error("this run proves nothing")
	}
	h.report(t)
}

// historyInBubble is the random test on a store in memory, in a time that takes no time.
func historyInBubble(t *testing.T, f Factory, seed int64, d time.Duration) *history {
	h := newHistory()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		clock := func() mono { return mono(time.Since(began)) + 1 }
		store := f.New(t)
		r := newResource(clock, h.noteWrite)
		ids := new(atomic.Int64)
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		var all sync.WaitGroup
		var lockers []*dibs.Locker
		for i := range chaosProcesses {
			faults := Faulty(store.Driver(t))
			e := &env{T: t, f: &f, store: store, exact: true, ttl: time.Second}
			l := e.lockerOn(faults.Driver(), dibs.Config{RequestTimeout: 2 * time.Second})
			lockers = append(lockers, l)
			for j := range chaosWorkers {
				w := &worker{
					process: i, keys: historyKeys, rng: random(seed, 10*i+j), locker: l, now: clock, ids: ids, beat: time.Second,
					tell: h.note,
					write: func(key string, token int64) error {
						r.accept(&write{Key: key, Token: token})
						return nil
					},
				}
				all.Go(func() { w.run(ctx) })
			}
			all.Go(func() { troubles(ctx, h, i, faults, random(seed, 1000+i), clock) })
		}
		all.Wait()
		for _, l := range lockers {
			if err := l.Shutdown(context.Background()); err != nil {
				t.Errorf("shutdown: %v", err)
			}
		}
	})
	return h
}

// troubles are the faults of one process' store, one after another, with rests between.
func troubles(ctx context.Context, h *history, process int, f *FaultyDriver, rng *rand.Rand, clock func() mono) {
	defer f.Heal()
	between := func(low, high time.Duration) time.Duration { return low + time.Duration(rng.Int64N(int64(high-low))) }
	for ctx.Err() == nil {
		time.Sleep(between(10*time.Millisecond, 4*time.Second))
		faults := []Fault{
			FailBefore(errAway), FailBefore(errAwayNotApplied), DropReply(), HoleReply(), Hole(), Hang(), Stall(),
			Late(between(10*time.Millisecond, 3*time.Second)),
			Delay(between(0, 500*time.Millisecond), between(0, 1500*time.Millisecond)),
			FailBefore(errors.New("something that no driver should say")),
		}
		fault := faults[rng.IntN(len(faults))]
		from := clock()
		if rng.IntN(2) == 0 {
			f.OnAll(fault)
		} else {
			op := []Op{OpAcquire, OpRenew, OpRelease, OpLeave, OpWait}[rng.IntN(5)]
			f.On(op, First(1+rng.IntN(3)), fault)
		}
		time.Sleep(between(50*time.Millisecond, 2500*time.Millisecond))
		f.Heal()
		// What was sent meanwhile may arrive, or be told, a little later.
		h.noteSpan(h.faults, process, span{from, clock() + mono(4*time.Second)})
	}
}
