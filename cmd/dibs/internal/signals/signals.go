//go:build unix

// Package signals knows which signals dibs passes on, and leaves alone those that were ignored when it started.
package signals

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Ending are the signals that end a wait. While COMMAND runs they are passed on to it.
//
// WINCH, CONT and TSTP are not among them: a resized terminal or a Ctrl-Z must not end a wait.
var Ending = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2}

// Running are the signals that are passed on besides, while COMMAND runs.
var Running = []os.Signal{syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGTSTP}

// Stopping are the signals by which a terminal stops a process that is not in its foreground.
var Stopping = []os.Signal{syscall.SIGTTIN, syscall.SIGTTOU}

// Catch delivers the signals to ch, but for those that were ignored from the start (nohup; a shell's background jobs):
// what is ignored is inherited by COMMAND as it would be without dibs, and stays so.
// The Go runtime can only know that of HUP and INT and of those it does not catch by itself.
func Catch(ch chan<- os.Signal, sigs ...os.Signal) {
	for _, s := range sigs {
		if !ignored(s.(syscall.Signal)) {
			signal.Notify(ch, s)
		}
	}
}

// ignoredMask is first asked for before the first signal.Notify, which changes what the system says.
var ignoredMask = sync.OnceValue(ignoredAtStart)

func ignored(s syscall.Signal) bool {
	return ignoredMask()&(1<<(uint(s)-1)) != 0 || signal.Ignored(s)
}
