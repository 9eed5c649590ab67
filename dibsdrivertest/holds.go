package dibsdrivertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dibs-go/dibs"
)

var holdCases = []testcase{
	{name: "B08/max_hold", run: maxHold},
	{name: "B08/max_hold_is_not_released_under_the_work", run: maxHoldLapses},
	{name: "B08/max_hold_then_release", run: maxHoldRelease},
	{name: "B08/hold_alarm", run: holdAlarm},
	{name: "B08/hold_alarm_off", run: holdAlarmOff},
}

// maxHold: the worker hangs for ever, its renewer is healthy.
func maxHold(e *env) {
	told := make(chan dibs.Event, 1)
	a, faults := e.faultyLocker(dibs.Config{Events: dibs.Events{MaxHold: func(ev dibs.Event) { told <- ev }}})
	b := e.locker()
	limit := 5 * e.ttl / 2
	began := time.Now()
	lock, work := e.hold(a, "k", dibs.MaxHold(limit))
	end := ending(work)
	next := e.waits(b, "k")
	at := e.ended(end, limit+e.slack)
	if d := at.Sub(began); d < limit {
		e.Errorf("ended after %s, max hold is %s", d, limit)
	}
	e.is(context.Cause(work), dibs.ErrMaxHold, "the work's context")
	e.is(lock.Err(), dibs.ErrMaxHold, "the lock")
	if ev := receive(e, told); ev.Key != "k" || ev.Token != lock.Token() || !errors.Is(ev.Err, dibs.ErrMaxHold) {
		e.Errorf("the event is %+v", ev)
	}
	calls := faults.Calls(OpRenew)
	n := e.got(next, e.ttl+e.slack)
	if got := faults.Calls(OpRenew); got != calls {
		e.Errorf("%d renewals past max hold", got-calls)
	}
	if n.at.Before(at) {
		e.Error("another had the key before the work was told")
	}
	err := lock.Release()
	e.is(err, dibs.ErrMaxHold, "the late release")
	e.is(err, dibs.ErrLost, "the late release")
	e.ok(n.lock.Verify(e.Context()), "the next holder asks")
	e.ok(n.lock.Release(), "release")
}

// maxHoldLapses: the work may go on for a while after it was told; nobody else may begin as long as the lease lasts.
func maxHoldLapses(e *env) {
	a, faults := e.faultyLocker(dibs.Config{MaxHold: 3 * e.ttl / 2})
	_, work := e.hold(a, "k")
	receive(e, work.Done())
	if n := faults.Calls(OpRelease); n != 0 {
		e.Errorf("%d releases under work that runs", n)
	}
	if !e.store.Peek(e, "k").Held {
		e.Error("released under work that runs")
	}
	e.until(e.ttl+e.slack, "the lease lapses", func() bool { return !e.store.Peek(e, "k").Held })
	if n := faults.Calls(OpRelease); n != 0 {
		e.Errorf("%d releases under work that runs", n)
	}
}

// maxHoldRelease: once the work has ended, nobody need wait for the lease to lapse.
func maxHoldRelease(e *env) {
	a, b := e.lockerWith(dibs.Config{TTL: max(e.ttl, longTTL), MaxHold: e.ttl}), e.locker()
	err := a.Do(e.Context(), "k", func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
	e.is(err, dibs.ErrMaxHold, "do")
	e.free(b, "k", e.slack+time.Second)
}

// holdAlarm is told at the alarm's time and at each doubling; the lock goes on.
func holdAlarm(e *env) {
	var mu sync.Mutex
	var alarms []time.Duration
	a := e.lockerWith(dibs.Config{HoldAlarm: e.ttl / 2, Events: dibs.Events{HoldAlarm: func(ev dibs.Event) {
		mu.Lock()
		defer mu.Unlock()
		alarms = append(alarms, ev.For)
	}}})
	lock, work := e.hold(a, "k")
	time.Sleep(7 * e.ttl / 2) // alarms are due at 0.5, 1 and 2 TTLs; the next would be at 4
	if lock.Err() != nil || work.Err() != nil {
		e.Errorf("an alarm ended the lock: %v", lock.Err())
	}
	e.ok(lock.Release(), "release")
	time.Sleep(e.ttl)
	mu.Lock()
	defer mu.Unlock()
	if len(alarms) != 3 {
		e.Fatalf("alarms after %v", alarms)
	}
	for i, d := range alarms {
		if due := e.ttl / 2 << i; d < due || d > due+e.slack {
			e.Errorf("alarm %d after %s, due after %s", i, d, due)
		}
	}
}

func holdAlarmOff(e *env) {
	alarms := make(chan dibs.Event, 10)
	a := e.lockerWith(dibs.Config{HoldAlarm: -1, Events: dibs.Events{HoldAlarm: func(ev dibs.Event) { alarms <- ev }}})
	lock, _ := e.hold(a, "k")
	time.Sleep(2 * e.ttl)
	e.ok(lock.Release(), "release")
	if len(alarms) > 0 {
		e.Error("an alarm that was turned off")
	}
}
