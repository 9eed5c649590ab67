//go:build unix

package dibsdrivertest

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// now reads CLOCK_MONOTONIC, which is one for all processes; that of the time package counts from the start of each.
func now() mono {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return mono(ts.Nano())
}

func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// processorTime is what this process has used so far.
func processorTime() (ns int64) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
