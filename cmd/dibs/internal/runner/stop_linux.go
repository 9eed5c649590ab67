package runner

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sigaction is room for the kernel's struct of that name. Its layout differs between machines, and all zeros is SIG_DFL on each.
type sigaction [64]byte

// stopGroup stops this process and its group, as Ctrl-Z does. Once caught, TSTP cannot be set back to its default by os/signal: the
// runtime's handler stays and drops it. So it is set back here, until the returned function is called.
func stopGroup() (undo func()) {
	var standard, caught sigaction
	set := func(act, old *sigaction) {
		const setSize = 8 // of a signal set
		// It cannot fail: signal and addresses are good.
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(syscall.SIGTSTP),
			uintptr(unsafe.Pointer(act)), uintptr(unsafe.Pointer(old)), setSize, 0, 0)
	}
	set(&standard, &caught)
	_ = syscall.Kill(0, syscall.SIGTSTP)
	return func() { set(&caught, nil) }
}
