package dibsdrivertest

import (
	"context"
	"math/rand/v2"
	"time"
)

// enoughCrashes of the store: what it had acknowledged has to be there afterwards.
const enoughCrashes = 2

func (c *chaos) crashedEnough() bool {
	_, can := c.store.(Crasher)
	c.tools.RLock()
	defer c.tools.RUnlock()
	return !can || c.crashes >= enoughCrashes
}

// crashStore kills the store's server now and then, and starts it again.
func (c *chaos) crashStore(ctx context.Context, rng *rand.Rand) {
	s, ok := c.store.(Crasher)
	for ok && ctx.Err() == nil && (Long() || !c.crashedEnough()) {
		select {
		case <-time.After(3*time.Second + time.Duration(rng.Int64N(int64(3*time.Second)))):
		case <-ctx.Done():
			return
		}
		c.tools.Lock()
		from := now()
		restart := s.Crash(c)
		time.Sleep(time.Duration(rng.Int64N(int64(time.Second))))
		restart()
		c.crashes++
		c.tools.Unlock()
		c.h.mu.Lock()
		c.h.blocked = append(c.h.blocked, span{from, now()})
		c.h.mu.Unlock()
	}
}
