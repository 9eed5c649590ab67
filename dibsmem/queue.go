package dibsmem

import (
	"context"
	"slices"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// placeLife is how long a place lasts whose waiter does not ask again.
const placeLife = 3 * time.Second

// alive drops the places of waiters that have died or are frozen, and returns the others.
func (r *row) alive(now time.Time) []*place {
	r.line = slices.DeleteFunc(r.line, func(p *place) bool {
		age := now.Sub(p.asked)
		return age > placeLife || age < -placeLife // the clock was set back
	})
	return r.line
}

// queue gives the waiter a place, or confirms the one it has.
func (r *row) queue(waiter string, now time.Time) {
	if waiter == "" {
		return
	}
	for _, p := range r.alive(now) {
		if p.waiter == waiter {
			p.asked = now
			return
		}
	}
	r.line = append(r.line, &place{waiter, now})
}

// first reports whether nobody stands before the waiter, who is given a place otherwise.
func (r *row) first(waiter string, now time.Time) bool {
	if line := r.alive(now); len(line) == 0 || line[0].waiter == waiter {
		return true
	}
	r.queue(waiter, now)
	return false
}

func (r *row) leave(waiter string) {
	r.line = slices.DeleteFunc(r.line, func(p *place) bool { return p.waiter == waiter })
}

// Leave implements [dibsdriver.Leaver].
func (s *Store) Leave(ctx context.Context, p dibsdriver.WaitParams) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if r := s.keys[p.Key]; r != nil {
		r.leave(p.Waiter)
		s.change() // the next may be first now
	}
	return nil
}

// Wait implements [dibsdriver.Waker].
func (s *Store) Wait(ctx context.Context, p dibsdriver.WaitParams) error {
	for {
		s.mu.Lock()
		now := s.now()
		r := s.keys[p.Key]
		free := !r.held(now)
		if free && r != nil {
			line := r.alive(now)
			free = len(line) == 0 || line[0].waiter == p.Waiter
		}
		changed := s.changed
		s.mu.Unlock()
		if free {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Contended implements [dibsdriver.Contender].
func (s *Store) Contended(ctx context.Context, key string) (bool, error) {
	if err := s.enter(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	r := s.keys[key]
	return r != nil && len(r.alive(s.now())) > 0, nil
}
