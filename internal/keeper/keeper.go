// Package keeper keeps the leases of one process: it renews them in batches, watches over their trust windows, and stops
// keeping those that were held too long.
//
// One goroutine does it for all leases, and it never waits for a store: requests run in goroutines of their own, so that an
// answer that does not come cannot delay the end of a trust window. The goroutine lives as long as there is a lease.
package keeper

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/call"
)

// ErrMaxHold is the cause of a lease's end that was held too long. (The root package gives it its public name.)
var ErrMaxHold = errors.New("dibs: max hold exceeded")

var errStopped = errors.New("stopped")

// maxCalls bounds the renewal requests under way at once: enough that a few that hang hold nobody up, few enough
// for a pool of connections.
const maxCalls = 4

// maxSleep bounds the keeper's sleep, so that it notices in time that the machine slept.
const maxSleep = time.Second

// Keeper keeps leases. Its fields are set before its first use.
type Keeper struct {
	Driver dibsdriver.Driver
	Group  *call.Group
	// Timeout is the limit of one request.
	Timeout time.Duration
	// Batch is the largest number of leases in one request; 0 for no limit.
	Batch int
	// Refused is told of a renewal that the store refuses as wrong. Called outside of the lock.
	Refused func(key string, err error)
	// Wall tells what the wall clock, which goes on while a machine sleeps, said at a moment. For tests; nil for the real one, which a moment carries.
	Wall func(at time.Time) time.Time

	mu      sync.Mutex
	queue   queue
	running bool
	calls   int
	kick    chan struct{}
	wakesAt time.Time // when the goroutine looks again by itself
	clocks  clocks
}

// Add keeps a lease that a request made at start was granted for life. It returns false, and keeps
// nothing, if the trust window is over already. If the machine slept since start the lease is in doubt, as a renewal's answer would be.
func (k *Keeper) Add(t Terms, h Holder, start time.Time, life time.Duration) (*Lease, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	l := &Lease{terms: t, holder: h, keeper: k, since: now}
	l.confirm(start, life, k.clocks.skew(start, k.Wall))
	if l.expired(now) != nil {
		return nil, false
	}
	if k.slept(l, now) {
		l.distrust(now)
	}
	l.holdFrom(now, t.MaxHold, t.HoldAlarm)
	heap.Push(&k.queue, l)
	if !k.running {
		k.running, k.wakesAt = true, now
		k.kick = make(chan struct{}, 1)
		k.Group.Go(k.run)
	} else {
		k.wakeFor(l)
	}
	return l, true
}

// Stop stops keeping the lease: no renewal is sent after it. It returns why the lease had ended before, or nil; told is
// false if its holder has not heard of that end, and now will not.
func (l *Lease) Stop() (cause error, told bool) {
	k := l.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	cause, told = l.err(), l.ended != nil
	if !told {
		l.ended = errStopped
		k.remove(l)
	}
	return cause, told
}

// Lapsed reports whether the lease's last trust window is over, so that somebody else may have the key.
func (l *Lease) Lapsed() bool {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	return !time.Now().Before(l.trustUntil)
}

// Err returns nil while the lease can be trusted.
func (l *Lease) Err() error {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	if err := l.err(); err != nil || l.ended != nil {
		return err
	}
	return l.doubt()
}

// err does not wait for the keeper's goroutine to notice that the window is over, nor that the machine slept.
func (l *Lease) err() error {
	if l.ended == errStopped {
		return nil
	}
	if l.ended != nil {
		return l.ended
	}
	now := time.Now()
	if l.keeper.slept(l, now) {
		l.distrust(now)
		heap.Fix(&l.keeper.queue, l.index)
		l.keeper.wake()
	}
	return l.expired(now)
}

// Remaining is the time until the trust window ends, 0 once the lease has ended or is in doubt.
func (l *Lease) Remaining() time.Duration {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	if l.ended != nil || l.err() != nil || !l.doubtUntil.IsZero() {
		return 0
	}
	return max(0, time.Until(l.trustUntil))
}

// StopAll ends all leases with the cause, and leaves them to lapse.
func (k *Keeper) StopAll(cause error) {
	k.mu.Lock()
	all := append([]*Lease(nil), k.queue...)
	for _, l := range all {
		k.end(l, cause)
	}
	k.mu.Unlock()
	for _, l := range all {
		l.holder.LeaseEnded(cause)
	}
}

func (k *Keeper) end(l *Lease, cause error) {
	l.ended = cause
	k.remove(l)
}

func (k *Keeper) remove(l *Lease) {
	heap.Remove(&k.queue, l.index)
	if len(k.queue) == 0 {
		k.wake() // the goroutine ends when nothing is left
	}
}

// wakeFor wakes the goroutine if it would sleep too long for this lease.
func (k *Keeper) wakeFor(l *Lease) {
	if l.next().Before(k.wakesAt) {
		k.wake()
	}
}

func (k *Keeper) wake() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

// run is the keeper's goroutine. It ends with the last lease; see StopAll.
func (k *Keeper) run(context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, ok := k.turn()
		if !ok {
			return
		}
		timer.Reset(min(max(0, time.Until(next)), maxSleep))
		select {
		case <-timer.C:
		case <-k.kick:
		}
	}
}

// turn does what is due and returns when to look again; false if there is no lease left.
func (k *Keeper) turn() (next time.Time, ok bool) {
	k.mu.Lock()
	now := time.Now()
	k.notice(now)
	var tell []func()
	for len(k.queue) > 0 && !k.queue[0].next().After(now) {
		l := k.queue[0]
		if f := k.attend(l, now); f != nil {
			tell = append(tell, f)
		}
		if l.ended != nil {
			continue
		}
		if !l.renewAt.IsZero() && !l.renewAt.After(now) {
			if k.calls >= maxCalls {
				l.renewAt = time.Time{} // asked for again when a request ends
			} else {
				k.send(k.batch(now), now)
			}
		}
		if l.ended == nil {
			heap.Fix(&k.queue, l.index)
		}
	}
	if len(k.queue) == 0 {
		k.running = false
		k.mu.Unlock()
		notify(tell)
		return time.Time{}, false
	}
	next = k.queue[0].next()
	k.wakesAt = next
	k.mu.Unlock()
	notify(tell)
	return next, true
}

func notify(tell []func()) {
	for _, f := range tell {
		f()
	}
}

// attend looks at one lease that is due and returns what its holder is to be told.
func (k *Keeper) attend(l *Lease, now time.Time) func() {
	if cause := l.expired(now); cause != nil {
		k.end(l, cause)
		return func() { l.holder.LeaseEnded(cause) }
	}
	if !l.maxAt.IsZero() && !now.Before(l.maxAt) {
		cause := fmt.Errorf("%w: %q was held for longer than %s", ErrMaxHold, l.terms.Key, l.terms.MaxHold)
		k.end(l, cause)
		return func() { l.holder.LeaseEnded(cause) }
	}
	if !l.alarmAt.IsZero() && !now.Before(l.alarmAt) {
		held := now.Sub(l.since)
		for !now.Before(l.alarmAt) {
			l.alarmAt = l.since.Add(2 * l.alarmAt.Sub(l.since))
		}
		holder := l.holder // the lease may be another's when it is told
		return func() { holder.HoldAlarm(held) }
	}
	return nil
}
