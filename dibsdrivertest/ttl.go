package dibsdrivertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/dibs-go/dibs"
)

var ttlCases = []testcase{
	{name: "B34/ttl_table", run: ttlTable, needs: freeTTL},
	{name: "B34/ttl_of_config", run: ttlConfig, needs: freeTTL},
	{name: "B34/takeover_after_the_ttl", run: ttlTakeover, needs: freeTTL},
	{name: "B34/max_wait_max_hold_min_hold", run: otherDurations},
	{name: "B34/session_ttl", run: sessionTTL},
}

const day = 24 * time.Hour

var ttls = []time.Duration{
	-time.Second, 0, 1, 999 * time.Microsecond, time.Millisecond, 50 * time.Millisecond, 99 * time.Millisecond, 100 * time.Millisecond,
	500 * time.Millisecond, 999 * time.Millisecond, time.Second, 1001 * time.Millisecond, 1500 * time.Millisecond, 1500*time.Millisecond + 1, 90 * time.Second, time.Hour, day,
	day + 1, 25 * time.Hour, 365 * day, 100 * 365 * day, 1<<63 - 1,
}

// ttlTable: each value is either refused by an error, or kept: nothing makes 1500 ms of it 1 s or 1500 s, and no lease is without an end.
func ttlTable(e *env) {
	a := e.locker()
	e.connect(a)
	limits, err := e.driver().Limits()
	e.ok(err, "limits")
	for i, ttl := range ttls {
		key := fmt.Sprint("k", i)
		if ttl < limits.MinTTL || ttl > day {
			_, _, err := a.TryAcquire(e.Context(), key, dibs.TTL(ttl))
			if err == nil || errors.Is(err, dibs.ErrUnavailable) || errors.Is(err, dibs.ErrBusy) {
				e.Errorf("TTL %s: %v", ttl, err)
			}
			if e.store.Peek(e, key).Held {
				e.Errorf("TTL %s was refused, and the key is set", ttl)
			}
			continue
		}
		if ttl < e.f.trips(10) { // over before its answer can be here
			_, _, err := a.TryAcquire(e.Context(), key, dibs.TTL(ttl))
			if err != nil {
				e.is(err, dibs.ErrUnavailable, "TTL "+ttl.String())
			}
			continue
		}
		var lock *dibs.Lock
		var began time.Time
		e.until(5*time.Second, "acquired", func() bool {
			began = time.Now()
			lock, _, err = a.TryAcquire(e.Context(), key, dibs.TTL(ttl))
			if err != nil && ttl > 200*time.Millisecond { // a shorter one may be over before a loaded machine is back
				e.Fatalf("TTL %s: %v", ttl, err)
			}
			return err == nil
		})
		left := e.store.Peek(e, key).Left
		peeked := time.Since(began)
		if left > ttl+50*time.Millisecond || left < ttl-peeked-50*time.Millisecond {
			e.Errorf("TTL %s: %s are left after %s", ttl, left, peeked)
		}
		if r := lock.Remaining(); r > ttl {
			e.Errorf("TTL %s: trusted for %s", ttl, r)
		}
		if err := lock.Release(); err != nil && ttl > 200*time.Millisecond {
			e.Errorf("TTL %s: release: %v", ttl, err)
		}
	}
}

func ttlConfig(e *env) {
	limits, err := e.driver().Limits()
	e.ok(err, "limits")
	for _, ttl := range ttls {
		_, err := dibs.New(e.driver(), &dibs.Config{TTL: ttl})
		good := ttl == 0 || ttl >= limits.MinTTL && ttl <= day
		if good != (err == nil) {
			e.Errorf("Config.TTL %s: %v", ttl, err)
		}
	}
	l, err := dibs.New(e.driver(), nil)
	e.ok(err, "new")
	defer l.Shutdown(background())
	lock, _, err := l.TryAcquire(e.Context(), "k")
	e.ok(err, "try")
	if left := e.store.Peek(e, "k").Left; left > 30*time.Second || left < 25*time.Second {
		e.Errorf("the default TTL is 30 s, %s are left", left)
	}
	e.ok(lock.Release(), "release")
}

// ttlTakeover: a waiter has the key when the dead holder's TTL is over, whatever its value.
func ttlTakeover(e *env) {
	limits, err := e.driver().Limits()
	e.ok(err, "limits")
	type dead struct {
		ttl           time.Duration
		before, after time.Time
		next          <-chan taken
	}
	var all []dead
	b := e.locker()
	for i, ttl := range []time.Duration{
		50 * time.Millisecond, 500 * time.Millisecond, 999 * time.Millisecond, time.Second, 1500 * time.Millisecond, 90 * time.Second,
	} {
		if ttl < limits.MinTTL || ttl > time.Minute && !e.exact && !Long() {
			continue
		}
		ttl += e.f.trips(20)
		a, faults := e.faultyLocker(dibs.Config{TTL: ttl})
		faults.On(OpRenew, Always, FailBefore(errAway))
		d := dead{ttl: ttl}
		key := fmt.Sprint("k", i)
		e.until(30*time.Second, "acquired", func() bool { // it may be over before a loaded machine is back
			d.before = time.Now()
			_, _, err := a.Acquire(e.Context(), key, dibs.MaxWait(20*time.Second))
			if err != nil && !errors.Is(err, dibs.ErrUnavailable) {
				e.Fatalf("TTL %s: %v", ttl, err)
			}
			return err == nil
		})
		faults.OnAll(FailBefore(errAway))
		d.after = time.Now()
		d.next = e.waits(b, key, dibs.MaxWait(ttl+20*time.Second))
		all = append(all, d)
	}
	for _, d := range all {
		n := e.got(d.next, d.ttl+30*time.Second)
		if took := n.at.Sub(d.before); took < d.ttl-time.Millisecond {
			e.Errorf("TTL %s: taken over after %s", d.ttl, took)
		}
		if took := n.at.Sub(d.after); took > d.ttl+e.soon(500*time.Millisecond, d.after) {
			e.Errorf("TTL %s: taken over after %s", d.ttl, took)
		}
		e.ok(n.lock.Release(), "release")
	}
}

func otherDurations(e *env) {
	a := e.locker()
	session := e.f.session(e)
	for _, c := range []struct {
		name string
		opt  dibs.Option
		good bool
	}{
		{"MaxWait 0", dibs.MaxWait(0), true},
		{"MaxWait 1ns", dibs.MaxWait(1), true},
		{"MaxWait -1", dibs.MaxWait(-1), false},
		{"MaxWait years", dibs.MaxWait(1<<63 - 1), true},
		{"MaxHold 0", dibs.MaxHold(0), true},
		{"MaxHold -1", dibs.MaxHold(-1), false},
		{"MaxHold years", dibs.MaxHold(1<<63 - 1), true},
		{"MinHold 0", dibs.MinHold(0), true},
		{"MinHold -1", dibs.MinHold(-1), false},
		{"MinHold 1ns", dibs.MinHold(1), !session},
		{"MinHold a day", dibs.MinHold(day + 1), false},
		{"MinHold years", dibs.MinHold(1<<63 - 1), false},
	} {
		lock, _, err := a.Acquire(e.Context(), c.name, c.opt)
		switch {
		case c.name == "MaxWait 1ns" && err != nil: // too short for a real store, which is no fault of the value
			e.isNot(err, dibs.ErrLost, c.name)
		case c.good != (err == nil):
			e.Errorf("%s: %v", c.name, err)
		case err != nil && (errors.Is(err, dibs.ErrBusy) || errors.Is(err, dibs.ErrUnavailable)):
			e.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			e.ok(lock.Release(), c.name)
		}
		e.until(time.Second+e.slack, c.name+": the key is free", func() bool { return !e.store.Peek(e, c.name).Held })
	}
}

// session tells whether all leases hang on one session.
func (f *Factory) session(e *env) bool { return f.can(e.T)&freeTTL == 0 }

func sessionTTL(e *env) {
	if !e.f.session(e) {
		return // this is what the other cases are about
	}
	a := e.locker()
	_, _, err := a.TryAcquire(e.Context(), "k", dibs.TTL(e.ttl+time.Second))
	e.is(err, dibs.ErrUnsupported, "a TTL per call")
	_, _, err = a.TryAcquire(e.Context(), "k", dibs.MinHold(time.Second))
	e.is(err, dibs.ErrUnsupported, "min hold")
	_, err = dibs.New(e.driver(), &dibs.Config{TTL: e.ttl + time.Second})
	e.is(err, dibs.ErrUnsupported, "another TTL than the session's")
}
