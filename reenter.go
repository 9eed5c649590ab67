package dibs

import (
	"context"
	"maps"
	"slices"
)

// reentered is what a section knows of its re-entries. Its fields belong to the section's lock.
type reentered struct {
	// inner ends the contexts of the re-entries that were not released yet: a caller may have cut them off from the section's own.
	inner map[*Lock]context.CancelCauseFunc
	// over is why the section's contexts were ended; nil as long as they were not.
	over error
}

// enterAgain takes a key that the context holds. It returns nil if the section was released meanwhile.
func (s *section) enterAgain(ctx context.Context, key string) (*Lock, context.Context) {
	inner, cancel := context.WithCancelCause(ctx)
	lock := &Lock{section: s, key: key}
	if !s.addInner(lock, cancel) {
		cancel(ErrReleased)
		return nil, nil
	}
	return lock, context.WithValue(inner, heldKey{}, &held{lock: lock, outer: heldIn(ctx)})
}

// addInner counts a re-entry, whose context ends as the section's have if they have in this moment.
func (s *section) addInner(lock *Lock, cancel context.CancelCauseFunc) bool {
	s.mu.Lock()
	entered, over := s.count > 0, s.over
	if entered {
		s.count++
		if s.inner == nil {
			s.inner = make(map[*Lock]context.CancelCauseFunc)
		}
		s.inner[lock] = cancel
	}
	s.mu.Unlock()
	if entered && over != nil {
		cancel(over)
	}
	return entered
}

// leaveInner ends the context of a re-entry that was released.
func (s *section) leaveInner(lock *Lock) {
	s.mu.Lock()
	cancel := s.inner[lock]
	delete(s.inner, lock)
	s.mu.Unlock()
	if cancel != nil {
		cancel(ErrReleased)
	}
}

// stop ends the contexts of the section and of all its re-entries. The first cause is theirs.
func (s *section) stop(cause error) {
	s.mu.Lock()
	if s.over == nil {
		s.over = cause
	}
	inner := slices.Collect(maps.Values(s.inner))
	s.mu.Unlock()
	s.cancel(cause)
	for _, cancel := range inner {
		cancel(cause)
	}
}
