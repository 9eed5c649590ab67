package dibsdrivertest

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dibs-go/dibs"
)

var eventCases = []testcase{
	{name: "events/in_order", run: eventsInOrder},
	{name: "events/that_block_delay_no_lock", run: eventsBlock},
	{name: "events/that_panic_are_logged", run: eventsPanic},
	{name: "events/loss_is_logged", run: lossLogged},
}

type journal struct {
	mu   sync.Mutex
	what []string
}

func (j *journal) note(what string) func(dibs.Event) {
	return func(ev dibs.Event) {
		j.mu.Lock()
		defer j.mu.Unlock()
		if ev.Err != nil {
			j.what = append(j.what, what+"!")
		} else {
			j.what = append(j.what, what)
		}
	}
}

func (j *journal) read() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.what)
}

func (j *journal) events() dibs.Events {
	return dibs.Events{
		Acquired: j.note("acquired"), Waited: j.note("waited"), Lost: j.note("lost"), MaxHold: j.note("max hold"), Released: j.note("released"),
	}
}

func eventsInOrder(e *env) {
	var j journal
	var renewed sync.Map
	events := j.events()
	events.Renewed = func(ev dibs.Event) { renewed.Store(ev.Key, ev.Token) }
	a, b := e.lockerWith(dibs.Config{Events: events}), e.locker()
	lock, _ := e.hold(a, "k")
	_, _, err := a.Acquire(e.Context(), "k", dibs.MaxWait(50*time.Millisecond))
	e.is(err, dibs.ErrBusy, "the wait")
	e.until(e.ttl+e.slack, "a renewal is told", func() bool { v, _ := renewed.Load("k"); return v == lock.Token() })
	e.ok(lock.Release(), "release")
	lock, _ = e.hold(a, "k")
	e.is(e.holdBroken(a, b, "k", lock), dibs.ErrLost, "release")
	want := []string{"waited", "acquired", "waited!", "released", "waited", "acquired", "released!"}
	e.until(time.Second+e.slack, "all is told", func() bool { return len(j.read()) >= len(want) })
	if got := j.read(); !slices.Equal(got, want) {
		e.Errorf("told %q, want %q", got, want)
	}
}

// eventsBlock: a log that goes to a full pipe must not hold up a renewal or a loss.
func eventsBlock(e *env) {
	stuck := make(chan struct{})
	block := func(dibs.Event) { <-stuck }
	a, faults := e.faultyLocker(dibs.Config{Events: dibs.Events{Acquired: block, Renewed: block, Lost: block}})
	b := e.locker()
	lock, work := e.hold(a, "k")
	e.throughout(2*e.ttl, "held", func() bool { return lock.Err() == nil })
	end := ending(work)
	faults.OnAll(FailBefore(errAway))
	at := e.ended(end, e.ttl+e.slack)
	next, _ := e.hold(b, "k")
	if time.Now().Before(at) {
		e.Error("unreachable")
	}
	faults.Heal()
	e.is(lock.Release(), dibs.ErrLost, "release")
	e.ok(next.Release(), "release")
	close(stuck)
}

type logged struct {
	mu      sync.Mutex
	records []slog.Record
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }
func (l *logged) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logged) WithGroup(string) slog.Handler            { return l }
func (l *logged) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r)
	return nil
}

func (l *logged) has(level slog.Level, words string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.records, func(r slog.Record) bool { return r.Level == level && strings.Contains(r.Message, words) })
}

func eventsPanic(e *env) {
	var log logged
	a := e.lockerWith(dibs.Config{Logger: slog.New(&log), Events: dibs.Events{Acquired: func(dibs.Event) { panic("in an event") }}})
	e.free(a, "k", e.slack)
	e.free(a, "k", e.slack)
	e.until(time.Second+e.slack, "the panic is logged", func() bool { return log.has(slog.LevelError, "panicked") })
}

// lossLogged: whoever looks at neither the context nor the events still finds it in the log, as an error.
func lossLogged(e *env) {
	var log logged
	f := e.faulty()
	a := e.lockerOn(f.Driver(), dibs.Config{Logger: slog.New(&log), MaxHold: 2 * e.ttl, HoldAlarm: e.ttl})
	e.Cleanup(f.Heal)
	lock, work := e.hold(a, "held for long")
	receive(e, work.Done())
	e.until(time.Second+e.slack, "the hold alarm is logged", func() bool { return log.has(slog.LevelError, "held for long") })
	e.until(time.Second+e.slack, "max hold is logged", func() bool { return log.has(slog.LevelError, "max hold") })
	lock.Release()
	lock, work = e.hold(a, "k")
	f.OnAll(FailBefore(errAway))
	receive(e, work.Done())
	e.until(time.Second+e.slack, "the loss is logged", func() bool { return log.has(slog.LevelError, "lost") })
	f.Heal()
	lock.Release()
}
