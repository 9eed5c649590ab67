// Package backoff spreads retries, so that clients that failed together do not come back together.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Backoff counts the tries of one thing. The zero value is ready.
type Backoff struct {
	tries int
}

// Next returns the pause before the next try: it doubles from low to high and is spread over half of itself.
func (b *Backoff) Next(low, high time.Duration) time.Duration {
	d := high
	if b.tries < 30 && low<<b.tries < high {
		d = low << b.tries
	}
	b.tries++
	return Jitter(d)
}

// Reset starts again from low.
func (b *Backoff) Reset() { b.tries = 0 }

// Jitter returns a random duration between d/2 and d.
func Jitter(d time.Duration) time.Duration {
	if d < 2 {
		return d
	}
	return d/2 + rand.N(d-d/2)
}
