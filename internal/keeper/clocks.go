package keeper

import "time"

// clocks compares the wall clock with the monotonic one, which on Linux stands still while the machine sleeps (and so does
// every timer): a wall clock that ran ahead means that trust windows may be over without their timers knowing.
type clocks struct {
	base, baseWall time.Time
	noticed        time.Duration
}

// skew is how far the wall clock had run ahead of the monotonic clock at a moment, counted from that of the first call.
func (c *clocks) skew(at time.Time, wall func(time.Time) time.Time) time.Duration {
	w := at.Round(0) // drops the monotonic reading
	if wall != nil {
		w = wall(at).Round(0)
	}
	if c.base.IsZero() {
		c.base, c.baseWall = at, w
	}
	return w.Sub(c.baseWall) - at.Sub(c.base)
}

// smallestGap is below every margin, so that no gap that matters goes by unnoticed.
const smallestGap = 5 * time.Millisecond

// notice puts every lease in doubt that was not confirmed since the clocks parted.
func (k *Keeper) notice(now time.Time) {
	skew := k.clocks.skew(now, k.Wall)
	if skew-k.clocks.noticed < smallestGap {
		k.clocks.noticed = min(k.clocks.noticed, skew) // set back: start again from there
		return
	}
	k.clocks.noticed = skew
	for _, l := range k.queue {
		if k.slept(l, now) {
			l.distrust(now)
		}
	}
	k.queue.fix()
}

// Slept reports whether the machine seems to have slept since a moment, for longer than the margin.
func (k *Keeper) Slept(since time.Time, margin time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.clocks.skew(since, k.Wall)
	return k.clocks.skew(time.Now(), k.Wall)-before > margin
}

func (k *Keeper) slept(l *Lease, now time.Time) bool {
	return k.clocks.skew(now, k.Wall)-l.skew > l.terms.Margin
}
