//go:build unix && !linux

package runner

import (
	"os"
	"syscall"
)

// stopGroup stops this process and its group, as Ctrl-Z does. Once caught, TSTP cannot be set back to its default by os/signal: the
// runtime's handler stays and drops it. TTIN, which is never caught here, stops just as well.
func stopGroup() (undo func()) {
	_ = syscall.Kill(0, syscall.SIGTSTP)
	_ = syscall.Kill(os.Getpid(), syscall.SIGTTIN)
	return func() {}
}
