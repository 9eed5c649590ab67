// Package load notices keys that are asked for more often, or by more waiters, than one lock is good for.
package load

import (
	"maps"
	"sync"
	"time"
)

const (
	// Requests is how many requests a second for one key are too many.
	Requests = 1000
	// Waiters is how many in one process's line are too many.
	Waiters = 50

	pause     = time.Minute // between two words about a key
	mostKeys  = 10_000      // that are counted at a time
	mostTexts = 10_000      // that are remembered
)

// Meter counts. The zero value is ready.
type Meter struct {
	mu     sync.Mutex
	second time.Time // that the counts are of
	counts map[string]int
	told   map[string]time.Time
	purged time.Time // of what was told long ago
}

// Request counts a request for a key, and tells whether it is time to say that there are too many.
func (m *Meter) Request(key string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d := now.Sub(m.second); d >= time.Second || d < 0 {
		m.second = now
		clear(m.counts)
	}
	n, ok := m.counts[key]
	if !ok && len(m.counts) >= mostKeys {
		return false // none of so many keys is likely to be the one
	}
	if m.counts == nil {
		m.counts = make(map[string]int)
	}
	m.counts[key] = n + 1
	return n+1 == Requests+1 && m.tell(key, now)
}

// Line tells whether it is time to say that a key has too many waiters.
func (m *Meter) Line(key string, waiters int, now time.Time) bool {
	if waiters <= Waiters {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tell(key, now)
}

// tell is called with the lock held.
func (m *Meter) tell(key string, now time.Time) bool {
	if at, ok := m.told[key]; ok && now.Sub(at) < pause {
		return false
	}
	if len(m.told) >= mostTexts && now.Sub(m.purged) >= time.Second {
		m.purged = now
		maps.DeleteFunc(m.told, func(_ string, at time.Time) bool { return now.Sub(at) >= pause })
	}
	if len(m.told) >= mostTexts {
		return false
	}
	if m.told == nil {
		m.told = make(map[string]time.Time)
	}
	m.told[key] = now
	return true
}
