package dibsdrivertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// The cases of this file and of those named driver_* ask the driver itself, without the engine.

var limitCases = []testcase{
	{name: "driver/limits", run: driverLimits},
	{name: "driver/ping", run: func(e *env) { e.ok(e.driver().Ping(e.Context()), "ping") }},
	{name: "driver/close_twice", run: driverCloseTwice},
}

var acquireCases = []testcase{
	{name: "S1/driver_acquire_busy_says_who", run: acquireBusy},
	{name: "S1/driver_acquire_expired", run: acquireExpired},
	{name: "S1/driver_acquire_same_owner_twice", run: acquireSameOwner},
	{name: "S1/driver_acquire_race", run: acquireRace},
	{name: "S4/driver_tokens_rise", run: acquireTokens},
	{name: "S4/driver_token_floor", run: acquireFloor, needs: freeTTL},
	{name: "S5/driver_acquire_ended_context", run: acquireEndedContext},
}

var letters = []rune("0123456789abcdefghijklmnopqrstuv")

// newOwner is an owner as the engine makes them.
func newOwner() string {
	var b strings.Builder
	for range dibsdriver.OwnerLen {
		b.WriteRune(letters[rand.IntN(len(letters))])
	}
	return b.String()
}

// params are those of a plain acquisition by a new owner.
func (e *env) params(key string) dibsdriver.AcquireParams {
	return dibsdriver.AcquireParams{Key: key, Owner: newOwner(), TTL: e.ttl, Holder: "a holder", Note: "a note"}
}

// take acquires a free key from the driver.
func (e *env) take(d dibsdriver.Driver, p dibsdriver.AcquireParams) dibsdriver.AcquireResult {
	e.Helper()
	r, err := d.Acquire(e.Context(), p)
	if err != nil || !r.Acquired {
		e.Fatalf("acquiring %q: %+v, %v", p.Key, r, err)
	}
	return r
}

// refused requires that the key cannot be had.
func (e *env) refused(d dibsdriver.Driver, key string) dibsdriver.AcquireResult {
	e.Helper()
	r, err := d.Acquire(e.Context(), e.params(key))
	if err != nil || r.Acquired {
		e.Fatalf("acquiring %q, which is held: %+v, %v", key, r, err)
	}
	return r
}

func driverLimits(e *env) {
	l, err := e.driver().Limits()
	e.ok(err, "limits")
	switch {
	case l.Store == "":
		e.Error("the store has no name for errors and logs")
	case l.MinTTL <= 0 || l.MinTTL > time.Second:
		e.Errorf("the smallest TTL is %s", l.MinTTL)
	case l.PollMin <= 0 || l.PollMax < l.PollMin:
		e.Errorf("polls between %s and %s", l.PollMin, l.PollMax)
	case l.RenewBatch < 0:
		e.Errorf("batches of %d", l.RenewBatch)
	}
}

func driverCloseTwice(e *env) {
	d := e.store.Driver(e)
	e.take(d, e.params("k"))
	e.ok(d.Close(), "close")
	e.ok(d.Close(), "the second close")
}

func acquireBusy(e *env) {
	a, b := e.driver(), e.driver()
	p := e.params("k")
	began := time.Now()
	token := e.take(a, p).Token
	r := e.refused(b, "k")
	h := r.Holder
	if h.Key != "k" || h.Token != token || h.Holder != p.Holder || h.Note != p.Note {
		e.Errorf("the holder is %+v", h)
	}
	if h.ExpiresIn > e.ttl+time.Millisecond || h.ExpiresIn < e.ttl-time.Since(began)-50*time.Millisecond {
		e.Errorf("it expires in %s, acquired %s ago for %s", h.ExpiresIn, time.Since(began), e.ttl)
	}
	if !h.Since.IsZero() && (h.Since.Location() != time.UTC || h.Since.Sub(began).Abs() > e.slack+time.Second) {
		e.Errorf("held since %s, acquired at %s", h.Since, began.UTC())
	}
	if answers, err := a.Renew(e.Context(), []dibsdriver.Renewal{{Key: "k", Owner: p.Owner, TTL: e.ttl}}); err != nil || answers[0] != dibsdriver.Renewed {
		e.Errorf("being asked for changed the lease: %v, %v", answers, err)
	}
}

// acquireExpired: no clean-up is needed before a dead holder's key can be had (L1, B27).
func acquireExpired(e *env) {
	a, b := e.driver(), e.driver()
	before := time.Now()
	first := e.take(a, e.params("k"))
	after := time.Now()
	var second dibsdriver.AcquireResult
	e.until(e.ttl+5*time.Second, "the expired key is taken", func() bool {
		var err error
		second, err = b.Acquire(e.Context(), e.params("k"))
		e.ok(err, "acquire")
		if d := time.Since(before); second.Acquired && d < e.ttl-time.Millisecond {
			e.Fatalf("taken %s after it was acquired for %s", d, e.ttl)
		}
		return second.Acquired
	})
	if d := time.Since(after); d > e.ttl+e.slack {
		e.Errorf("taken %s after it was acquired for %s", d, e.ttl)
	}
	if second.Token < first.Token+dibsdriver.TokenStep {
		e.Errorf("token %d after %d", second.Token, first.Token)
	}
}

// acquireSameOwner: a proxy may send a request twice; the second is the same acquisition.
func acquireSameOwner(e *env) {
	d := e.driver()
	p := e.params("k")
	first := e.take(d, p)
	p.TTL = min(p.TTL, e.ttl/2)
	if e.ttl == p.TTL {
		p.TTL = e.ttl
	}
	second := e.take(d, p)
	if second.Token != first.Token {
		e.Errorf("the same acquisition has the tokens %d and %d", first.Token, second.Token)
	}
	if l := e.store.Peek(e, "k"); !l.Held || l.Left < e.ttl/2+time.Millisecond {
		e.Errorf("a repeated request shortened the lease: %+v", l)
	}
}

func acquireRace(e *env) {
	a, b := e.driver(), e.driver()
	for round := range 10 {
		key := fmt.Sprint("k", round)
		var won atomic.Int32
		var wg sync.WaitGroup
		for i := range 16 {
			d := []dibsdriver.Driver{a, b}[i%2]
			wg.Go(func() {
				p := e.params(key)
				p.TTL = max(p.TTL, 20*time.Second)
				if r, err := d.Acquire(e.Context(), p); err != nil {
					e.Errorf("acquire: %v", err)
				} else if r.Acquired {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			e.Fatalf("round %d: %d owners", round, won.Load())
		}
	}
}

func acquireTokens(e *env) {
	a, b := e.driver(), e.driver()
	var last int64
	for i := range 20 {
		d := []dibsdriver.Driver{a, b}[i%2]
		p := e.params("k")
		token := e.take(d, p).Token
		if token < last+dibsdriver.TokenStep || token > dibsdriver.MaxToken {
			e.Fatalf("token %d after %d", token, last)
		}
		last = token
		e.ok(d.Release(e.Context(), dibsdriver.ReleaseParams{Key: "k", Owner: p.Owner}), "release")
	}
}

// acquireFloor: a store that forgot must not give a process a token that it has seen already.
func acquireFloor(e *env) {
	p := e.params("k")
	p.Floor = 1 << 52
	if token := e.take(e.driver(), p).Token; token < p.Floor+dibsdriver.TokenStep || token > dibsdriver.MaxToken {
		e.Errorf("token %d with a floor of %d", token, p.Floor)
	}
}

// acquireEndedContext: a call on a dead context returns at once, and what it says of its fate is true.
func acquireEndedContext(e *env) {
	d := e.driver()
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	began := time.Now()
	r, err := d.Acquire(ctx, e.params("k"))
	e.took(began, 0, dibsdriver.Grace, "an acquire on an ended context")
	switch {
	case err == nil && !r.Acquired:
		e.Error("a free key is busy")
	case err == nil || dibsdriver.FateOf(err) != dibsdriver.FateNotApplied:
	case e.store.Peek(e, "k").Held:
		e.Errorf("applied, but said not to be: %v", err)
	}
}
