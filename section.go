package dibs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dibs-go/dibs/internal/keeper"
	"github.com/dibs-go/dibs/internal/line"
	"github.com/dibs-go/dibs/internal/outbox"
	"github.com/dibs-go/dibs/internal/settle"
)

// section is one critical section: from an acquisition (or a re-entry into it) until its last release.
type section struct {
	*engine
	key, full string // as the caller gave it, and with the prefix
	owner     string
	token     int64
	began     time.Time
	terms     line.Terms
	life      time.Duration
	lease     *keeper.Lease

	ctx    context.Context
	cancel context.CancelCauseFunc

	ended     sync.WaitGroup // until LeaseEnded has told of the lease's end, if it ends
	mu        sync.Mutex
	count     int         // how often it is held: 1, and 1 more for each re-entry
	acquired  func() bool // tells of its beginning; nil once it was told
	heard     bool        // there was room for that, and so its end is told as well
	quiet     bool        // its end was told of; nothing is told after it
	reentered             // see reenter.go
	fenced                // see fenced.go
}

// lives reports whether the section goes on: it was not released, and its lease has not ended.
func (s *section) lives() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.lease.Err()
	return s.count > 0 && (err == nil || errors.Is(err, ErrUnavailable)) // in doubt is not ended
}

// leave is one release. The last is the real one.
func (s *section) leave() error {
	s.mu.Lock()
	if s.count == 0 { // a commit has released it
		s.mu.Unlock()
		return nil
	}
	s.count--
	last := s.count == 0
	s.mu.Unlock()
	if !last {
		if err := s.lease.Err(); err != nil && !errors.Is(err, ErrUnavailable) {
			return err
		}
		return nil
	}

	s.awaitCommits()
	began := time.Now() // all questions of the store from here on have one time-out together
	if s.mayHandOff() && s.lines.HandOn(s.full, s.owner, s.terms, func() { s.stop(ErrReleased); s.tellReleased(nil) }) {
		s.exit(s)
		return nil
	}
	// Renewal stops here, whatever becomes of the request.
	cause, told := s.lease.Stop()
	if cause != nil && !told {
		s.LeaseEnded(cause)
	} else if cause != nil {
		s.ended.Wait() // so that events keep their order: the work may be here before its context's end has been told
	}
	s.stop(ErrReleased) // if nothing else was the cause
	var err error
	if s.byCommit() {
		// There is nothing left to release.
	} else if cause != nil {
		// What the store may still have of us would only keep others waiting: the work is over.
		s.giveBack()
		err = cause
	} else if err = s.settler.Release(s.release(), began); errors.Is(err, ErrUnavailable) && s.group.Cancelled() {
		err = fmt.Errorf("%w: Shutdown gave up waiting while %q was being released on %s; its lease is left to lapse: %w", ErrClosed, s.key, s.limits.Store, err)
	} else if errors.Is(err, ErrUnavailable) {
		err = fmt.Errorf("%w; renewal has stopped, releasing goes on in the background, and the key is free in %s at the latest",
			s.about("releasing", s.key, err), s.bound().Round(time.Millisecond))
	} else if err != nil {
		err = fmt.Errorf("%w: when it was released, the lease of %q on %s was not ours any more", ErrLost, s.key, s.limits.Store)
	}
	err = s.excuse(err)
	s.tellReleased(err)
	s.lines.Ended(s.full, s.owner)
	s.exit(s)
	return err
}

// tellAcquired comes first of all that is told of a section, whoever has something to tell.
func (s *section) tellAcquired() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if tell := s.acquired; tell != nil {
		s.acquired = nil
		s.heard = tell()
	}
}

// end begins the telling of the section's end. It, and what is told of the end, come before the next in line is let go on, so that events keep their order.
// It reports whether the beginning was told.
func (s *section) end() (heard bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet = true
	return s.heard
}

// meanwhile tells something of a section unless its end was told before.
func (s *section) meanwhile(tell func()) {
	s.tellAcquired()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.quiet {
		tell()
	}
}

func (s *section) tellReleased(err error) {
	if s.end() {
		s.tell(outbox.Owed, s.cfg.Events.Released, Event{Key: s.key, Token: s.token, For: time.Since(s.began), Err: err})
	}
}

// bound is how long at most the lease can still stand in the store after the last renewal.
func (s *section) bound() time.Duration { return s.life + s.cfg.RequestTimeout }

func (s *section) release() settle.Release {
	r := settle.Release{Key: s.full, Owner: s.owner, Life: s.bound()}
	if s.terms.MinHold > 0 {
		r.KeepUntil = s.began.Add(s.terms.MinHold)
	}
	return r
}

// giveBack releases what the store may still have of the section, in the background.
func (s *section) giveBack() {
	s.settler.InBackground(s.release())
	s.lines.Ended(s.full, s.owner)
}

// LeaseEnded implements keeper.Holder.
func (s *section) LeaseEnded(cause error) {
	defer s.ended.Done()
	s.tellAcquired()
	if errors.Is(cause, keeper.ErrMaxHold) {
		cause = fmt.Errorf("%w: %q, with token %d", ErrMaxHold, s.key, s.token)
	}
	s.end()
	s.stop(cause)
	ev := Event{Key: s.key, Token: s.token, For: time.Since(s.began), Err: cause}
	switch {
	case errors.Is(cause, ErrMaxHold):
		s.alarm("dibs: max hold exceeded: the work is told to end, its lease lapses", s, "held", ev.For)
		s.tellEnded(s.cfg.Events.MaxHold, ev)
	case errors.Is(cause, ErrLost):
		if s.holdBack(cause) { // the next in line, too
			return
		}
		s.tellLost(cause)
	}
	s.lines.Ended(s.full, s.owner)
}

func (s *section) tellLost(cause error) {
	ev := Event{Key: s.key, Token: s.token, For: time.Since(s.began), Err: cause}
	s.alarm("dibs: lock lost under its work", s, "held", ev.For, "error", cause)
	s.tellEnded(s.cfg.Events.Lost, ev)
}

func (s *section) tellEnded(f func(Event), ev Event) {
	rank := outbox.Grave
	if s.end() {
		rank = outbox.Owed
	}
	s.tell(rank, f, ev)
}

// LeaseRenewed implements keeper.Holder.
func (s *section) LeaseRenewed() {
	s.meanwhile(func() {
		s.tell(outbox.Frequent, s.cfg.Events.Renewed, Event{Key: s.key, Token: s.token, For: time.Since(s.began)})
	})
}

// HoldAlarm implements keeper.Holder.
func (s *section) HoldAlarm(held time.Duration) {
	s.meanwhile(func() {
		s.alarm("dibs: a lock has been held for long", s, "held", held)
		s.tell(outbox.Grave, s.cfg.Events.HoldAlarm, Event{Key: s.key, Token: s.token, For: held})
	})
}
