package dibsdrivertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-go/dibs"
)

// churnOrder tells a process to take, renew and release a few keys, by many workers, as fast as it can.
type churnOrder struct {
	Process, Workers, Keys int
	Least                  int64 // rounds, however long they take
	TTL, For               time.Duration
}

// churnNeeds are its needs. In full it leaves nothing of the machine to others.
func churnNeeds() need {
	if Long() {
		return processes | freeTTL | networked | alone
	}
	return processes | freeTTL | networked | heavy
}

// churn is B41 as it was reported: processes with many workers each, a short TTL, and clean-up meanwhile. In make test there are fewer workers, for less long.
func churn(e *env) {
	o := churnOrder{Workers: 12, Keys: 10, Least: 50, TTL: 500*time.Millisecond + e.f.trips(20), For: 1500 * time.Millisecond}
	if Long() {
		o.Workers, o.For = 50, time.Minute
	}
	store := e.store
	if c, ok := store.(Cleaner); ok {
		store = c.Cleaning()
	}
	h := newHistory()
	var done []<-chan report
	var takers []*Taker
	for i := range 4 {
		takers = append(takers, startTaker(e, store.URL(), func(r report) {
			if r.What != "section" {
				return
			}
			if r.Section.Outcome != released {
				e.Errorf("process %d: %s: %s", i, r.Section, r.Section.Outcome)
			}
			h.note(*r.Section)
		}))
	}
	for i, p := range takers {
		o.Process = i
		done = append(done, p.order(order{Do: "churn", Churn: &o}))
	}
	caused := 0
	for i, p := range takers {
		select {
		case r := <-done[i]:
			e.ok(r.Error.err(), "churning")
			caused += int(r.Token)
		case <-p.done:
			e.Fatalf("process %d has ended", i)
		case <-time.After(o.For + time.Minute):
			e.Fatalf("process %d does not come to an end", i)
		}
		p.Kill()
	}
	held := h.held()
	rounds := 0
	bad := func(format string, args ...any) { e.Errorf(format, args...) }
	for _, list := range held {
		rounds += len(list)
		h.checkOverlaps(list, bad)
		h.checkTokens(list, bad)
	}
	e.Logf("%d rounds on %d keys, %d leases too short for this machine", rounds, len(held), caused)
	if rounds < 100 || caused > rounds {
		e.Errorf("%d rounds, %d leases too short for this machine: this proves nothing", rounds, caused)
	}
}

// churn is a helper process' side. It returns how many leases ended by themselves, since the machine was slow.
func (t *taker) churn(o *churnOrder) int64 {
	machine.watch()
	l := t.locker.With(dibs.TTL(o.TTL), dibs.MaxWait(20*time.Second))
	var ids, caused, rounds atomic.Int64
	ids.Store(int64(o.Process) * 100_000_000)
	var all sync.WaitGroup
	end := time.Now().Add(o.For)
	latest := end.Add(30 * time.Second)
	for w := range o.Workers {
		all.Go(func() {
			for n := 0; time.Now().Before(end) || rounds.Load() < o.Least && time.Now().Before(latest); n++ {
				key := fmt.Sprint("k", (o.Process+w+n)%o.Keys)
				if n%5 == 4 { // a row that is not there yet, asked for by one in each process at about the same time; soon it is one to be cleaned up
					key = fmt.Sprint("new ", w, " ", n)
				}
				began := time.Now()
				s := section{ID: ids.Add(1), Process: o.Process, Key: key, TTL: o.TTL}
				err := churnOnce(l, &s)
				// It counts from a request that was sent after it began; no loss can have another cause before its time was over.
				slow := time.Since(began) > o.TTL*8/10 || machine.since(began) > o.TTL/10
				if slow && (errors.Is(err, dibs.ErrLost) || errors.Is(err, dibs.ErrUnavailable)) && !quarrel(err) {
					caused.Add(1)
					continue
				}
				rounds.Add(1)
				if s.Outcome = released; err != nil {
					s.Outcome = err.Error()
				}
				t.say(report{What: "section", Section: &s})
			}
		})
	}
	all.Wait()
	return caused.Load()
}

func churnOnce(l *dibs.Locker, s *section) error {
	s.Called = now()
	lock, work, err := l.Acquire(context.Background(), s.Key)
	if s.Got = now(); err != nil {
		return err
	}
	s.Token, s.Trusted = lock.Token(), s.Called
	err = lock.Verify(work)
	if t := now(); lock.Err() == nil {
		s.Trusted = t
	}
	err = errors.Join(err, lock.Release())
	s.Freed = now()
	return err
}

// quarrel tells whether a store's own trouble between its clients has reached one.
func quarrel(err error) bool {
	for _, text := range []string{"Error 1213", "Error 1205", "eadlock", "database is locked"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}
