package dibsdrivertest

// The store's own word for who has a key. Without it nobody knows that a lock which its holder calls lost was really taken over. The store is looked at from outside
// (Peek) while it does nothing but what users let it do: a trigger that wrote takeovers down would change what the driver's statements are answered.

// passed is a lease that stood, whose process could do nothing to end it, and whose key the store then had given to another.
type passed struct {
	key    string
	token  int64
	frozen bool // its process was, from before that to after it
}

func (h *history) notePassed(p passed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.passed = append(h.passed, p)
}

// stands tells whether the store has a section's lease.
func (c *chaos) stands(s section) bool {
	l := c.peek(s.Key)
	return l.Held && l.Token == s.Token
}

// passedOn tells whether the store has had the key of a section acquired after it.
func (c *chaos) passedOn(s section) bool { return c.peek(s.Key).Token > s.Token }

func (c *chaos) peek(key string) Lease {
	c.tools.RLock()
	defer c.tools.RUnlock()
	return c.store.Peek(c, key)
}

// countOrphans looks for what the dead have left.
func (c *chaos) countOrphans() {
	c.mu.Lock()
	orphans := c.orphans
	c.orphans = nil
	c.mu.Unlock()
	var left []section
	for _, s := range orphans {
		if c.passedOn(s) {
			c.h.notePassed(passed{key: s.Key, token: s.Token})
		} else {
			left = append(left, s)
		}
	}
	c.mu.Lock()
	c.orphans = append(c.orphans, left...)
	c.mu.Unlock()
}
