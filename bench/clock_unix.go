//go:build unix

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// now reads CLOCK_MONOTONIC, which is one for all processes of a machine; that of the time package counts from the start of each.
func now() mono {
	var ts unix.Timespec
	// It cannot fail: the clock exists on every system that this builds for.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return mono(ts.Nano())
}

// processorTime is what this process has used so far.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
