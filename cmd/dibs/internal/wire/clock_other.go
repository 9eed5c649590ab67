//go:build unix && !linux

package wire

import "golang.org/x/sys/unix"

// Now reads the clock.
func Now() Mono {
	var ts unix.Timespec
	// It cannot fail: the clock exists on every system that this builds for.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return Mono(ts.Nano())
}
