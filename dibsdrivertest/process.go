package dibsdrivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// Processes that are killed and frozen.
var processCases = []testcase{
	{name: "L1/B26/killed_holder", run: killedHolder, needs: processes | freeTTL},
	{name: "S3/B05/frozen_holder", run: frozenHolder, needs: processes | freeTTL},
	{name: "S3/B05/frozen_for_less_than_the_ttl", run: frozenShortly, needs: processes | freeTTL},
	{name: "L3/killed_waiter", run: goneWaiter(func(_ *env, p *Taker) { p.Kill() }), needs: processes | queues},
	{name: "L3/frozen_waiter", run: goneWaiter((*env).freezeAside), needs: processes | queues},
	{name: "B32/time_zones", run: timeZones, needs: processes | freeTTL},
	{name: "B52/two_processes_of_one_name", run: twoProcesses, needs: processes},
	{name: "B45/many_processes_make_the_store", run: manyProcesses, needs: processes},
}

func (e *env) taker(env ...string) *Taker {
	e.Helper()
	if e.f.RoundTrip > 0 {
		env = append(env, takerFar+"="+e.f.trips(20).String())
	}
	return StartTaker(e, e.store.URL(), env...)
}

func killedHolder(e *env) {
	b := e.locker()
	p := e.taker()
	ttl := 3 * e.ttl / 2
	token := p.Acquire("k", ttl)
	next := e.waits(b, "k")
	time.Sleep(e.ttl)
	p.Kill()
	killed := time.Now()
	left := e.store.Peek(e, "k").Left
	n := e.got(next, ttl+e.slack+time.Second)
	if d := n.at.Sub(killed); d > left+e.soon(500*time.Millisecond, killed) {
		e.Errorf("the dead holder's key was free after %s; its lease had %s left", d, left)
	}
	if n.lock.Token() <= token {
		e.Errorf("token %d after %d", n.lock.Token(), token)
	}
	e.ok(n.lock.Release(), "release")
}

// frozenHolder wakes up after its time, and knows it before it does anything.
func frozenHolder(e *env) {
	b := e.locker()
	p := e.taker()
	token := p.Acquire("k", e.ttl)
	e.freezeAside(p)
	next, _ := e.hold(b, "k")
	if next.Token() <= token {
		e.Errorf("token %d after %d", next.Token(), token)
	}
	time.Sleep(e.ttl)
	before := e.store.Peek(e, "k")
	thawed := now()
	p.Thaw()
	e.is(p.Err("k"), dibs.ErrLost, "the frozen holder's lock") // its timers may not have had their turn yet
	select {
	case r := <-p.Ended("k"):
		if d := r.At.sub(thawed); d > 300*time.Millisecond+e.slack {
			e.Errorf("told %s after it went on", d)
		}
		e.is(r.Error.err(), dibs.ErrLost, "the frozen holder's context")
	case <-time.After(5 * time.Second):
		e.Fatal("the frozen holder was not told")
	}
	e.is(p.Verify("k"), dibs.ErrLost, "the frozen holder asks")
	e.is(p.Release("k"), dibs.ErrLost, "the frozen holder's release")
	if after := e.store.Peek(e, "k"); !after.Held || after.Token != before.Token {
		e.Errorf("the frozen holder changed the next one's lease: %+v, then %+v", before, after)
	}
	e.ok(next.Verify(e.Context()), "the next holder asks")
	e.ok(next.Release(), "release")
	p.Acquire("k", e.ttl) // it works on
	e.ok(p.Release("k"), "release")
}

// frozenShortly: a short sleep loses nothing.
func frozenShortly(e *env) {
	p := e.taker()
	p.Acquire("k", 3*e.ttl)
	for range 3 {
		p.Freeze()
		time.Sleep(e.ttl)
		p.Thaw()
		e.ok(p.Verify("k"), "verify")
		e.ok(p.Err("k"), "the lock")
	}
	e.ok(p.Release("k"), "release")
}

// freezeAside freezes a process in a moment in which it is not writing: in a store that is a file, all others would have to wait for it.
func (e *env) freezeAside(p *Taker) {
	e.Helper()
	d := e.driver()
	for range 20 {
		p.Freeze()
		ctx, cancel := context.WithTimeout(e.Context(), time.Second)
		aside := e.params("aside")
		r, err := d.Acquire(ctx, aside)
		cancel()
		if err == nil && r.Acquired {
			e.ok(d.Release(e.Context(), dibsdriver.ReleaseParams{Key: aside.Key, Owner: aside.Owner}), "release")
			return
		}
		p.Thaw()
		time.Sleep(e.ttl) // what was begun ends, and lapses
	}
	e.Fatal("whenever it is frozen, it is writing")
}

// goneWaiter: the first in the store's queue is killed, or frozen; the next waits a few seconds longer, and is served.
func goneWaiter(end func(*env, *Taker)) func(e *env) {
	return func(e *env) {
		a, b := e.locker(), e.locker()
		held, _ := e.hold(a, "k", e.lasting()...)
		p := e.taker()
		p.order(order{Do: "acquire", Key: "k"})
		if q, ok := e.store.(QueueCounter); ok {
			e.until(20*time.Second, "it waits", func() bool { return q.Queued(e, "k") == 1 })
		} else {
			time.Sleep(time.Second)
		}
		next := e.waits(b, "k")
		time.Sleep(300 * time.Millisecond)
		end(e, p)
		e.ok(held.Release(), "release")
		released := time.Now()
		n := e.got(next, 10*time.Second)
		if d := n.at.Sub(released); d > 5*time.Second+e.slack {
			e.Errorf("a waiter that is gone delayed the next by %s", d)
		}
		e.ok(n.lock.Release(), "release")
		if q, ok := e.store.(QueueCounter); ok {
			e.until(5*time.Second, "nothing is left in the queue", func() bool {
				e.free(b, "k", 5*time.Second) // whoever comes by clears the dead away
				return q.Queued(e, "k") == 0
			})
		}
	}
}

// timeZones: neither a client's zone nor its idea of the time has a say in when a lease ends.
func timeZones(e *env) {
	zones := []string{"Pacific/Kiritimati", "Asia/Kolkata", "America/Los_Angeles"}
	takers := make([]*Taker, len(zones))
	for i, zone := range zones {
		takers[i] = e.taker("TZ=" + zone)
	}
	for i, holder := range takers {
		key := fmt.Sprint("k", i)
		began := time.Now()
		token := holder.Acquire(key, e.ttl)
		l := e.store.Peek(e, key)
		if !l.Held || l.Left > e.ttl+50*time.Millisecond || l.Left < e.ttl-time.Since(began)-50*time.Millisecond {
			e.Errorf("zone %s: acquired %s ago for %s, and %+v", zones[i], time.Since(began), e.ttl, l)
		}
		for j, other := range takers {
			if j != i {
				e.is(other.Try(key), dibs.ErrBusy, "zone "+zones[j]+" beside "+zones[i])
			}
		}
		other := takers[(i+1)%len(takers)]
		e.freezeAside(holder)
		frozen := time.Now()
		if next := other.Acquire(key, e.ttl); next <= token {
			e.Errorf("token %d after %d", next, token)
		}
		if d := time.Since(frozen); d > e.ttl+e.slack {
			e.Errorf("zone %s took over from zone %s after %s", zones[(i+1)%len(zones)], zones[i], d)
		}
		holder.Thaw()
		e.is(holder.Release(key), dibs.ErrLost, "release")
		e.ok(other.Release(key), "release")
	}
	infos, err := e.locker().Locks(e.Context(), "")
	if err != nil || len(infos) != 0 {
		e.Errorf("locks: %+v, %v", infos, err)
	}
	if text := takers[1].ask(order{Do: "info"}).Text; !strings.Contains(text, "+0530") {
		e.Errorf("the helper process has another zone: %s", text)
	}
}

func twoProcesses(e *env) {
	p, q := e.taker(takerName+"=host pid 1"), e.taker(takerName+"=host pid 1")
	e.ok(p.Try("k"), "try")
	e.is(q.Try("k"), dibs.ErrBusy, "the same name")
	e.is(p.Try("k"), dibs.ErrBusy, "the same process")
	e.ok(p.Release("k"), "release")
	e.ok(q.Try("k"), "try")
	e.ok(q.Release("k"), "release")
}

// manyProcesses begin at once on a store that is not there yet; nobody sees an error of the store's, and each key has one holder.
func manyProcesses(e *env) {
	store := e.f.New(e)
	takers := make([]*Taker, 6)
	var start sync.WaitGroup
	for i := range takers {
		start.Go(func() { takers[i] = StartTaker(e, store.URL()) })
	}
	start.Wait()
	var mu sync.Mutex
	inside := make(map[string]int)
	var slow []time.Duration
	ctx, cancel := context.WithTimeout(e.Context(), 3*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i, p := range takers {
		if p == nil {
			e.FailNow()
		}
		for g := range 3 {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					key := fmt.Sprint("k", (i+g+n)%20)
					began := time.Now()
					// 10 s: a loaded machine must not lose it by itself.
					if err := p.ask(order{Do: "try", Key: key, TTL: 10 * time.Second}).Error.err(); err != nil {
						if !errors.Is(err, dibs.ErrBusy) {
							e.Errorf("try: %v", err)
						}
						continue
					}
					took := time.Since(began)
					mu.Lock()
					slow = append(slow, took)
					inside[key]++
					if inside[key] != 1 {
						e.Errorf("%q has %d holders", key, inside[key])
					}
					mu.Unlock()
					mu.Lock()
					inside[key]--
					mu.Unlock()
					if err := p.Release(key); err != nil {
						e.Errorf("release: %v", err)
					}
				}
			})
		}
	}
	wg.Wait()
	if len(slow) < 20 {
		e.Fatalf("%d acquisitions in 3 s", len(slow))
	}
	slices.Sort(slow)
	if d := slow[len(slow)/2]; d > 200*time.Millisecond+e.slack/10 {
		e.Errorf("of %d acquisitions half took longer than %s", len(slow), d)
	}
}
