package keeper

import (
	"container/heap"
	"time"
)

// nobody holds a lease that is on its way from one section to the next.
type nobody struct{}

func (nobody) LeaseEnded(error)        {}
func (nobody) LeaseRenewed()           {}
func (nobody) HoldAlarm(time.Duration) {}

// Detach takes the lease from its holder, who hears nothing of it any more, and keeps on renewing it for the next. It returns false, and
// changes nothing, unless the lease can be trusted for at least need.
func (l *Lease) Detach(need time.Duration) bool {
	k := l.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.ended != nil || l.err() != nil || !l.doubtUntil.IsZero() {
		return false
	}
	now := time.Now()
	if l.trustUntil.Sub(now) < need || !l.maxAt.IsZero() && !now.Before(l.maxAt) {
		return false
	}
	l.holder = nobody{}
	l.maxAt, l.alarmAt = time.Time{}, time.Time{}
	heap.Fix(&k.queue, l.index)
	return true
}

// Attach gives a detached lease to its next holder, whose hold begins now. It returns false if the lease has ended meanwhile, or is in doubt: no work begins
// under such a one, and it is not kept any more.
func (l *Lease) Attach(h Holder, maxHold, holdAlarm time.Duration) bool {
	k := l.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.ended != nil || l.err() != nil {
		return false
	}
	if !l.doubtUntil.IsZero() {
		k.end(l, errStopped)
		return false
	}
	l.holder = h
	l.holdFrom(time.Now(), maxHold, holdAlarm)
	heap.Fix(&k.queue, l.index)
	k.wakeFor(l)
	return true
}

// holdFrom begins a hold.
func (l *Lease) holdFrom(now time.Time, maxHold, holdAlarm time.Duration) {
	l.since = now
	l.terms.MaxHold, l.terms.HoldAlarm = maxHold, holdAlarm
	l.maxAt, l.alarmAt = time.Time{}, time.Time{}
	if maxHold > 0 {
		l.maxAt = now.Add(maxHold)
	}
	if holdAlarm > 0 {
		l.alarmAt = now.Add(holdAlarm)
	}
}
