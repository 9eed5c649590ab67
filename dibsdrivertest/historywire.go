package dibsdrivertest

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// Every other process of a history reaches its store through a proxy, if there is a wire to the store at all. Those wires go wrong in the ways in which the drivers do
// in a bubble (see troubles). What the other processes see is checked as if nothing were wrong.

// spoilWires spoils one process' wire after another.
func (c *chaos) spoilWires(ctx context.Context, rng *rand.Rand) {
	if _, ok := c.store.(Networked); !ok {
		return
	}
	between := func(low, high time.Duration) time.Duration { return low + time.Duration(rng.Int64N(int64(high-low))) }
	for ctx.Err() == nil {
		time.Sleep(between(10*time.Millisecond, 200*time.Millisecond))
		i, wire, least, done := c.wireVictim(rng)
		if wire == nil {
			continue
		}
		ways := map[string]func(){
			"cut": wire.Cut, "reset": wire.Reset, "stall": wire.Stall, "hole": wire.Hole, "forget": wire.Forget, "drop replies": wire.HoleReplies,
			"drop replies, then reset": func() {
				wire.HoleReplies()
				time.Sleep(between(50*time.Millisecond, 500*time.Millisecond))
				wire.Reset()
			},
			"delay": func() { wire.Delay(between(0, 500*time.Millisecond), between(0, 1500*time.Millisecond)) },
		}
		names := slices.Sorted(maps.Keys(ways))
		name := names[rng.IntN(len(names))]
		from := now()
		ways[name]()
		time.Sleep(between(least, 2500*time.Millisecond))
		wire.Pass()
		done()
		// What was sent meanwhile may arrive, or be told, a little later.
		c.h.noteSpan(c.h.faults, i, span{from, now() + mono(4*time.Second)})
		c.spoiled[name]++
	}
}

// wireVictim picks a process with a wire: now and then any, which may be frozen beside it; else one that holds something, to which nothing else is done until done
// is called, and whose lease is to run out.
func (c *chaos) wireVictim(rng *rand.Rand) (i int, wire *Proxy, least time.Duration, done func()) {
	if rng.IntN(4) == 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		all := slices.Sorted(maps.Keys(c.wires))
		if len(all) == 0 {
			return 0, nil, 0, nil
		}
		i = all[rng.IntN(len(all))]
		return i, c.wires[i], 50 * time.Millisecond, func() {}
	}
	for range 200 {
		if i, p, s := c.victim(func(i int) bool { return c.wires[i] != nil }); p != nil {
			return i, c.wire(i), s.TTL, func() { c.leave(i) }
		}
		time.Sleep(5 * time.Millisecond)
	}
	return 0, nil, 0, nil
}

// wire is the wire of a process that lives, nil if it has none.
func (c *chaos) wire(i int) *Proxy {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wires[i]
}
