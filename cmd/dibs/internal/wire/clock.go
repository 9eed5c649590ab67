//go:build unix

package wire

import "time"

// Mono is a time by the machine's monotonic clock, in nanoseconds: the same number in wrapper and guard.
type Mono int64

// Add is m plus d.
func (m Mono) Add(d time.Duration) Mono { return m + Mono(d) }

// Until is the time left until m.
func (m Mono) Until() time.Duration { return time.Duration(m - Now()) }
