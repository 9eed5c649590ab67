//go:build unix

package runner

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// pause does what a shell's job does when the terminal stops its command: it gives the terminal to a command that asks for it, or
// stops itself too, so that the shell comes back.
//
// Without a terminal a stopped command is just stopped; its lease goes on. With one, a wrapper that is stopped renews nothing: a job
// that stays suspended for longer than its lease is ended by its guard.
func (r *run) pause(sig syscall.Signal) {
	if r.terminal == nil || r.reason != "" {
		return
	}
	asked := sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
	switch {
	case asked && r.terminal.ours():
		r.terminal.give(r.guard.pid)
		r.guard.tree.SignalGroup(syscall.SIGCONT)
		return
	case !asked && sig != syscall.SIGTSTP:
		return // by STOP somebody stopped the command, not the job
	}
	given := r.terminal.given
	r.terminal.takeBack()
	if !r.suspend() && asked {
		return // a background job without a shell: nobody can ever give it the terminal
	}
	if given && r.terminal.ours() {
		r.terminal.give(r.guard.pid)
	}
	r.guard.tree.SignalGroup(syscall.SIGCONT)
}

// stops is how many tenths of a second a stop may take.
const stops = 6

// suspend stops this process and its group (the shell of a script, say), as Ctrl-Z does, and returns when it is
// continued. It answers false if it was not stopped at all: the system refuses that to a group without a shell that could continue it.
func (r *run) suspend() bool {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)

	undo := stopGroup()
	defer undo()
	for range stops { // more than once, because after a long stop the timer is over at once too, and the stop may come late
		select {
		case <-continued:
			return true
		case <-time.After(100 * time.Millisecond):
		}
	}
	return false
}
