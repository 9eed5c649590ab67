//go:build unix

package wire

import (
	"time"

	"golang.org/x/sys/unix"
)

// Mono is a time by the machine's monotonic clock, in nanoseconds: the same number in wrapper and guard.
type Mono int64

// Now reads the clock.
func Now() Mono {
	var ts unix.Timespec
	// It cannot fail: the clock exists on every system that this builds for.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return Mono(ts.Nano())
}

// Add is m plus d.
func (m Mono) Add(d time.Duration) Mono { return m + Mono(d) }

// Until is the time left until m.
func (m Mono) Until() time.Duration { return time.Duration(m - Now()) }
