package dibs

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Lock is a held lock. Its methods may be called by any number of goroutines at once, on a nil *Lock as well (which is a
// released one).
type Lock struct {
	section  *section
	key      string
	released atomic.Bool
}

func (l *Lock) over() bool {
	return l == nil || l.section == nil || l.released.Load() || l.section.byCommit()
}

// Key is the key as the caller gave it.
func (l *Lock) Key() string {
	if l == nil {
		return ""
	}
	return l.key
}

// Token is the fencing token: it is higher than that of every acquisition of the key before. A resource that remembers the highest
// token it has seen can refuse a holder that was overtaken without knowing (Martin Kleppmann, "How to do
// distributed locking", 2016). It is 0 for a nil Lock, and below 2^53.
func (l *Lock) Token() int64 {
	if l == nil || l.section == nil {
		return 0
	}
	return l.section.token
}

// Err returns nil while the lock can be trusted without asking the store. After that it says why not: [ErrReleased], [ErrLost],
// [ErrMaxHold]; [ErrClosed] if [Locker.Shutdown] gave up waiting for it; or, for a moment after the machine slept,
// [ErrUnavailable], until the store has confirmed the lease.
func (l *Lock) Err() error {
	if l.over() {
		return ErrReleased
	}
	return l.section.trusted()
}

// Remaining is how long the lock can be trusted without asking the store again, 0 if not any more. Renewal
// extends it.
func (l *Lock) Remaining() time.Duration {
	if l.over() {
		return 0
	}
	return l.section.lease.Remaining()
}

// Verify asks the store now whether the lock stands, and renews it if so. It returns nil; or [ErrLost], [ErrMaxHold] or [ErrReleased]; or
// [ErrUnavailable] if the store did not answer, or the context's error, either of which says nothing about the lock.
func (l *Lock) Verify(ctx context.Context) error {
	if l.over() {
		return ErrReleased
	}
	err := l.section.lease.Verify(ctx)
	switch {
	case l.over(): // while the store was asked
		return ErrReleased
	case err == nil:
		return nil
	}
	return l.section.about("verifying", l.key, l.section.public(err))
}

// Release gives the lock back. It needs no context, since a lock has to be released just when a context has ended, and returns within
// [Config].RequestTimeout, or twice that if the commit of a fenced transaction is under way, for which it waits. Renewal stops, whatever
// it returns:
//
//   - nil: the key is free, or, where there is a min hold, will be at its end. So too if a fenced transaction has released the lock by its commit.
//   - [ErrLost] or [ErrMaxHold]: the lock had ended before; the work may have run beside another's.
//   - [ErrUnavailable]: the store did not confirm. Releasing goes on in the background, and the lease lapses at its TTL.
//   - [ErrClosed]: [Locker.Shutdown] gave up waiting for it, and the lease is left to lapse.
//   - [ErrReleased]: it was released before.
//
// The usual way to call it is:
//
//	defer func() { err = errors.Join(err, lock.Release()) }()
func (l *Lock) Release() error {
	if l == nil || l.section == nil || l.released.Swap(true) {
		return ErrReleased
	}
	err := l.section.leave()
	l.section.leaveInner(l)
	return l.section.public(err)
}

// trusted returns nil while the lease can be trusted.
func (s *section) trusted() error { return s.public(s.lease.Err()) }

// public gives an error of the keeper its public name. Past its max hold a lease is left to lapse; once it has, it is lost as well.
func (s *section) public(err error) error {
	if !errors.Is(err, ErrMaxHold) {
		return err
	}
	err = fmt.Errorf("%w: %q, with token %d", ErrMaxHold, s.key, s.token)
	if s.lease.Lapsed() {
		err = fmt.Errorf("%w; its lease has lapsed since: %w", err, ErrLost)
	}
	return err
}
