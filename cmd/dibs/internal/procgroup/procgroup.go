//go:build unix

// Package procgroup signals a process group and tells whether it is empty.
package procgroup

import (
	"os"
	"syscall"
)

// Signal sends a signal to all processes of the group. The caller makes sure that its leader was not yet waited
// for, so that the number cannot belong to another group by now.
func Signal(pgid int, sig syscall.Signal) {
	// An error tells that nobody is there, or nobody whom we may signal: neither can be helped here, and
	// Alive shows what is left.
	_ = syscall.Kill(-pgid, sig)
}

// Terminate asks the group to end. CONT goes with it, because a stopped process does not even learn of a TERM.
func Terminate(pgid int) {
	Signal(pgid, syscall.SIGTERM)
	Signal(pgid, syscall.SIGCONT)
}

// Alive tells whether a process of the group other than the caller lives. known is false where the system does not say.
func Alive(pgid int) (alive, known bool) { return othersAlive(pgid, os.Getpid()) }
