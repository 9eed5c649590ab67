package dibs

import (
	"log/slog"
	"time"

	"github.com/dibs-go/dibs/internal/outbox"
)

// Event is what happened, as [Events] are told of it.
type Event struct {
	// Key is the key as callers give it.
	Key string
	// Token is the fencing token of the lock, 0 if there was none.
	Token int64
	// For is how long: the wait for Acquired and Waited, the hold for the others.
	For time.Duration
	// Err is the reason, where there is one.
	Err error
	// Advice says what is the matter and what helps, for LoadAdvice.
	Advice string
}

// Events are told what happens in a [Locker]. Each may be nil. They are called one after another, in the order in which
// things happened, by a goroutine of the Locker that no lock depends on, so that they may take locks, and call [Locker.Shutdown]. One that blocks delays
// other events and the log, and no lock. A panic in one is logged; one that ends its goroutine ([runtime.Goexit], t.FailNow) ends its own call.
//
// What waits to be told is bounded, for functions that are slower than what happens. When 10,000 events and records of the log wait, more of Renewed,
// RenewalRefused, Waited and LoadAdvice are dropped; when 100,000 wait, locks that are acquired are not told of, neither Acquired nor Released; when 200,000
// wait, their Lost, MaxHold and HoldAlarm are not told either. If Acquired was told of a lock, so are its Lost, MaxHold and Released, always.
type Events struct {
	// Acquired: a lock was acquired.
	Acquired func(Event)
	// Waited: a wait for a busy key ended, with the lock or with Err.
	Waited func(Event)
	// Renewed: the lease was renewed.
	Renewed func(Event)
	// RenewalRefused: the store refuses to renew, and will again: a missing right or table. The lease lives on as long as it was trusted.
	RenewalRefused func(Event)
	// Lost: the lease was lost under the work, whose context has ended.
	Lost func(Event)
	// MaxHold: the critical section took longer than its max hold; its context has ended.
	MaxHold func(Event)
	// HoldAlarm: the hold has lasted longer than its alarm, or than a doubling of that.
	HoldAlarm func(Event)
	// LoadAdvice: a key was asked for more than 1,000 times a second, or more than 50 wait for it in this process. At most once a minute for each
	// key; it is logged as well.
	LoadAdvice func(Event)
	// Released: the lock was released; Err if the store could not be told at once.
	Released func(Event)
}

// tell posts an event for delivery. It reports whether there was room for it.
func (e *engine) tell(r outbox.Rank, f func(Event), ev Event) bool {
	if f == nil {
		return e.outbox.Room(r)
	}
	return e.outbox.Post(r, func() {
		defer func() {
			if p := recover(); p != nil {
				e.cfg.Logger.Error("dibs: an event function panicked", "key", ev.Key, "panic", p)
			}
		}()
		f(ev)
	})
}

// log posts a log record for delivery.
func (e *engine) log(r outbox.Rank, level slog.Level, msg string, args ...any) {
	e.outbox.Post(r, func() { e.cfg.Logger.Log(e.background, level, msg, args...) })
}
