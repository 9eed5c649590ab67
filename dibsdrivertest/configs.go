package dibsdrivertest

import (
	"strings"
	"time"

	"github.com/dibs-go/dibs"
)

var configCases = []testcase{
	{name: "config/relations", run: configRelations, needs: freeTTL},
	{name: "config/no_io", run: configNoIO},
	{name: "config/name_and_note", run: configNames},
	{name: "config/with", run: configWith},
	{name: "config/ping", run: configPing},
}

// configRelations: what does not fit together is an error of New that says which field it is.
func configRelations(e *env) {
	for _, c := range []struct {
		cfg  dibs.Config
		says string // "" if it is good
	}{
		{dibs.Config{}, ""},
		{dibs.Config{TTL: time.Minute, Margin: 20 * time.Second}, ""},
		{dibs.Config{TTL: time.Minute, Margin: 21 * time.Second}, "margin"},
		{dibs.Config{TTL: time.Minute, Margin: -1}, "Margin"},
		{dibs.Config{TTL: -1}, "TTL"},
		{dibs.Config{TTL: 1}, "TTL"},
		{dibs.Config{TTL: 25 * time.Hour}, "TTL"},
		{dibs.Config{MaxHold: -1}, "MaxHold"},
		{dibs.Config{MaxHold: 1}, ""},
		{dibs.Config{HoldAlarm: -1}, ""},
		{dibs.Config{RequestTimeout: -1}, "RequestTimeout"},
		{dibs.Config{Prefix: strings.Repeat("p", 254)}, ""},
		{dibs.Config{Prefix: strings.Repeat("p", 255)}, "Prefix"},
		{dibs.Config{Prefix: "\xff"}, "Prefix"},
		{dibs.Config{Name: strings.Repeat("n", 256)}, "Name"},
		{dibs.Config{Name: "\xff"}, "Name"},
	} {
		l, err := dibs.New(e.driver(), &c.cfg)
		if c.says == "" {
			if e.ok(err, "new"); err == nil {
				e.ok(l.Shutdown(e.Context()), "shutdown")
			}
		} else if err == nil || !strings.Contains(err.Error(), c.says) {
			e.Errorf("%+v: %v", c.cfg, err)
		}
	}
	if _, err := dibs.New(nil, nil); err == nil {
		e.Error("New without a driver")
	}
	a := e.locker()
	_, _, err := a.TryAcquire(e.Context(), "k", dibs.MinHold(2*time.Second), dibs.MaxHold(time.Second))
	if err == nil || !strings.Contains(err.Error(), "MinHold") {
		e.Errorf("min hold above max hold: %v", err)
	}
}

// configNoIO: New asks the store nothing, so that a service starts when its store is down.
func configNoIO(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	for op := range ops {
		if n := faults.Calls(op); n != 0 {
			e.Errorf("New made %d calls of move %d", n, op)
		}
	}
	e.ok(a.Ping(e.Context()), "ping")
}

func configNames(e *env) {
	a, b := e.lockerWith(dibs.Config{Name: "nämé 🔒 '\"\\%"}), e.locker()
	lock, _ := e.hold(a, "k", dibs.Note("line 1\nline 2\x00 '; DROP TABLE dibs_leases; --"))
	busy := e.busy(b, "k")
	if busy.Holder.Holder != "nämé 🔒 '\"\\%" || busy.Holder.Note != "line 1\nline 2\x00 '; DROP TABLE dibs_leases; --" {
		e.Errorf("busy: %+v", busy.Holder)
	}
	e.ok(lock.Release(), "release")
	for _, note := range []string{"\xff", strings.Repeat("n", 1025)} {
		if _, _, err := a.TryAcquire(e.Context(), "k", dibs.Note(note)); err == nil {
			e.Errorf("a note of %d bytes was taken: %.10q", len(note), note)
		}
	}
	e.free(a.With(dibs.Note(strings.Repeat("n", 1024))), "k", e.slack)
}

func configWith(e *env) {
	a := e.locker()
	w := a.With(dibs.MaxWait(0), dibs.Note("with"))
	lock, _ := e.hold(a, "k")
	_, _, err := w.Acquire(e.Context(), "k")
	e.is(err, dibs.ErrBusy, "the same locker excludes itself")
	e.ok(lock.Release(), "release")
	lock, _, err = w.Acquire(e.Context(), "k")
	e.ok(err, "acquire")
	if b := e.busy(a, "k"); b.Holder.Note != "with" {
		e.Errorf("the note is %q", b.Holder.Note)
	}
	if b := e.busy(e.locker(), "k"); b.Holder.Note != "with" {
		e.Errorf("the note is %q", b.Holder.Note)
	}
	e.ok(lock.Release(), "release")
	if _, _, err := a.With(dibs.TTL(-1)).TryAcquire(e.Context(), "k"); err == nil {
		e.Error("an option that cannot be kept")
	}
}

func configPing(e *env) {
	timeout := 300 * time.Millisecond
	if !e.exact {
		timeout = time.Second + e.f.trips(10) // a real store needs some of it, on a loaded machine
	}
	a, faults := e.faultyLocker(dibs.Config{RequestTimeout: timeout})
	e.ok(a.Ping(e.Context()), "ping")
	faults.OnAll(Hang())
	began := time.Now()
	e.is(a.Ping(e.Context()), dibs.ErrUnavailable, "ping")
	e.took(began, 0, timeout+50*time.Millisecond, "ping")
	if records, err := e.driver().List(e.Context(), ""); err != nil || len(records) != 0 {
		e.Errorf("ping left something behind: %v, %v", records, err)
	}
}
