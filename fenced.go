package dibs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-go/dibs/internal/fencing"
)

func init() {
	fencing.Pin = func(lock any) (fencing.Lease, error) {
		l, ok := lock.(*Lock)
		if !ok {
			return fencing.Lease{}, fmt.Errorf("dibs: %T is not a *dibs.Lock", lock)
		}
		if l.over() {
			return fencing.Lease{}, ErrReleased
		}
		return l.section.pin()
	}
}

// fenced is what a section knows of the transactions that are fenced by it. Its fields belong to the section's lock.
type fenced struct {
	pins     int           // commits under way
	unpinned chan struct{} // closed when pins falls to 0; nil if nobody waits
	unseen   bool          // some transaction was fenced whose commit we do not see
	freeing  bool          // a commit is under way, or its answer was lost, that releases the lease
	freed    bool          // it took effect
	untold   error         // the lease was found lost while such a commit was under way
}

// pin keeps the section from ending while a transaction that is fenced by it commits: otherwise a release, or a handoff, could overtake the
// commit, and the next holder would work beside it.
func (s *section) pin() (fencing.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == 0 {
		return fencing.Lease{}, ErrReleased
	}
	if err := s.trusted(); err != nil && !errors.Is(err, ErrUnavailable) { // in doubt is not ended: the store decides
		return fencing.Lease{}, err
	}
	s.pins++
	return fencing.Lease{
		Driver: s.driver, Key: s.full, Owner: s.owner, Token: s.token, TTL: s.terms.TTL,
		Unpin:  s.unpin,
		Unseen: s.committingUnseen,
		Verify: func(ctx context.Context) error { return s.public(s.lease.Verify(ctx)) },
		Keep: func() time.Duration {
			if s.terms.MinHold == 0 {
				return 0
			}
			return max(0, time.Until(s.began.Add(s.terms.MinHold)))
		},
		Freeing: s.beginFreeing,
		Freed:   s.endFreeing,
	}, nil
}

func (s *section) unpin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pins--
	if s.pins == 0 && s.unpinned != nil {
		close(s.unpinned)
		s.unpinned = nil
	}
}

func (s *section) committingUnseen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unseen = true
}

// mayHandOff tells whether the lease may go to another section without a word to the store: not while the row is what orders a commit and what
// comes after it.
func (s *section) mayHandOff() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pins == 0 && !s.unseen && !s.freeing && !s.freed
}

// awaitCommits waits for the commits under way, at most as long as a request may take: the store then decides, since the commit and
// the release touch the same row.
func (s *section) awaitCommits() {
	s.mu.Lock()
	if s.pins == 0 {
		s.mu.Unlock()
		return
	}
	over := make(chan struct{})
	s.unpinned = over
	s.mu.Unlock()
	t := time.NewTimer(s.cfg.RequestTimeout)
	defer t.Stop()
	select {
	case <-over:
	case <-t.C:
	}
}

func (s *section) beginFreeing() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.count == 0:
		return ErrReleased
	case s.count > 1:
		return fmt.Errorf("dibs: %q is held %d times by its context (see dibs.Reenter): a commit cannot release it under the others; "+
			"let the outermost release it, and use InTx here", s.key, s.count)
	}
	s.freeing = true
	return nil
}

// endFreeing ends the section if its lease was released by the commit. Lock.Release has nothing left to do then.
func (s *section) endFreeing(o fencing.Outcome) {
	s.mu.Lock()
	untold := s.untold
	switch o {
	case fencing.Committed:
		s.freed = true
	case fencing.NotCommitted:
		s.freeing = false
	}
	lost := untold != nil && !s.freeing
	end := s.freed && s.count > 0 // otherwise a Release is waiting for us
	if end {
		s.count = 0
	}
	s.mu.Unlock()
	if lost {
		s.tellLost(untold)
	}
	if end {
		if _, told := s.lease.Stop(); told {
			s.ended.Wait() // so that events keep their order
		}
		s.stop(ErrReleased)
		s.tellReleased(nil)
		s.lines.Ended(s.full, s.owner)
		s.exit(s)
	} else if untold != nil && o != fencing.Committed {
		s.lines.Ended(s.full, s.owner)
	}
}

// byCommit reports whether the lease was released by a commit.
func (s *section) byCommit() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.freed
}

// excuse keeps silent about a lease that is not there any more when a commit may have released it.
func (s *section) excuse(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.freeing && errors.Is(err, ErrLost) && !errors.Is(err, ErrMaxHold) {
		return nil
	}
	return err
}

// holdBack keeps a loss from being reported while a commit that releases the lease is under way: a renewal may find the lease gone
// before the commit's answer is here.
func (s *section) holdBack(cause error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.freeing {
		s.untold = cause
	}
	return s.freeing
}
