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

// early gets what would otherwise be lost, or end dibs in a way of Go's own (QUIT), before a command has begun: it is there before the drivers
// of all stores are initialized, which takes most of dibs' start.
var early = make(chan os.Signal, 64)

func init() { Catch(early, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2) }

// Early is where QUIT, USR1 and USR2 come in, those included that came before it was asked for. Who asks has to deal with them, or to call EndByEarly.
func Early() chan os.Signal { return early }

// EndByEarly lets them end this process, as HUP, INT and TERM do where nobody has caught them.
func EndByEarly() {
	end := func(sig os.Signal) { os.Exit(128 + int(sig.(syscall.Signal))) }
	select {
	case sig := <-early:
		end(sig)
	default:
		go func() { end(<-early) }()
	}
}

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
