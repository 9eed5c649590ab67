//go:build unix

// Package runner is the wrapper's side of a running command: it starts the guard, keeps it informed of the lease, passes signals
// on, and stands in for the guard where that fails.
package runner

import (
	"context"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/dibs-go/dibs/cmd/dibs/internal/wire"
)

// Lease is what has to be known of a lock here.
type Lease interface {
	// Remaining is how long the lease can still be believed in.
	Remaining() time.Duration
}

// Command is what is to be run.
type Command struct {
	Args, Env []string
	KillAfter time.Duration
}

// Job is a command under a lease.
type Job struct {
	Vars    []string // for the command's environment, besides
	Lease   Lease
	Renewed <-chan struct{} // a word after each renewal
	Held    context.Context // ends when the command has to
	TooLong error           // the cause of its end that means max hold; any other is a loss

	Signals chan os.Signal // the ending signals, already caught
}

// Outcome is what became of a job.
type Outcome struct {
	Kind Kind
	// Status is the wait status of the command (Ended, ByItself), or its exit status in a shell's eyes (NotRun).
	Status int
	// Signal is the one that kept the command from being run (Interrupted).
	Signal syscall.Signal
	// Message says why the command could not be run (NotRun).
	Message string
	// Cause is why the lease ended, if that was known (Lost, TooLong).
	Cause error
	// ByItself: the command ended before it could be stopped, but after the lease (Lost).
	ByItself bool
	// Alive: not all that the command has started could be killed. Its lease must lapse, not be released.
	Alive bool
	// Escaped are the pids of those that the command has started and that live on in sessions of their own; the same holds for its lease. Only
	// known where the command had to be stopped.
	Escaped []int
	// Deadline is until when the lease was good, as far as the guard was told.
	Deadline wire.Mono
}

// Kind is how a job ended.
type Kind int

// The kinds of outcome.
const (
	Ended       Kind = iota // by itself
	NotRun                  // it could not be started
	Interrupted             // a signal came before it was started
	Lost                    // it was stopped, because the lease was lost
	TooLong                 // it was stopped, because it took longer than its max hold
	GuardLost               // it was stopped, because its guard had died
)

const (
	// backup is how much later than the guard the wrapper acts in its place.
	backup = 100 * time.Millisecond
	// hearing is how long it takes at most until a word that the guard has said is heard.
	hearing = 20 * time.Millisecond
)

// Runner is a command with its guard, which is started beforehand: so it costs no time between the lock and the command.
type Runner struct {
	Command
	guard    *guardProc
	terminal *terminal // nil if there is none
}

// Prepare starts the guard. Nothing is run before Run.
func Prepare(c Command) (*Runner, error) {
	g, err := startGuard(c)
	if err != nil {
		return nil, err
	}
	return &Runner{Command: c, guard: g}, nil
}

// Close ends a guard that has nothing to do any more, and waits for it.
func (r *Runner) Close() {
	r.guard.control.Close()
	select {
	case <-r.guard.gone:
		reap()
	case <-time.After(time.Second): // it hangs, and there is nothing left for it to do
	}
}

// run is a job under way.
type run struct {
	*Runner
	*Job
	begun  bool // the command runs
	queued []syscall.Signal

	deadline wire.Mono // until then the lease is good, as the guard was told
	reason   string    // why the command is to end; empty while it may run
	since    wire.Mono // when there was that reason
	cause    error
	termed   bool      // TERM was sent
	bidden   bool      // by the guard, before the command had ended
	termAt   wire.Mono // when to send it in the guard's place
	killAt   wire.Mono // when to send KILL, with or without the guard

	ended, failed *wire.Msg
}

// Run runs the job and returns when its command has ended; if it had to be stopped, when all that it has started have.
func (p *Runner) Run(job *Job) (Outcome, error) {
	r := &run{Runner: p, Job: job}
	r.catchMore()
	if sig := r.interrupted(); sig != 0 {
		return Outcome{Kind: Interrupted, Signal: sig}, nil
	}
	if err := r.revive(); err != nil {
		return Outcome{}, err
	}
	r.terminal = openTerminal()
	if r.terminal.foregroundJob() {
		r.terminal.give(r.guard.pid)
	}
	defer r.terminal.close()
	r.renew()
	r.guard.send(wire.Msg{Word: wire.Go, Text: strings.Join(job.Vars, "\x00")})
	r.watch()
	return r.settle(), nil
}

// revive starts another guard if somebody has killed the first while it had nothing to do yet.
func (r *run) revive() (err error) {
	select {
	case <-r.guard.gone:
		r.Runner.Close()
		r.guard, err = startGuard(r.Command)
	default:
	}
	return err
}

// renew tells the guard until when the lease is good.
func (r *run) renew() {
	if r.reason != "" {
		return
	}
	// The clock first: when this process is frozen between the two lines, the deadline comes out too early, never too late.
	now := wire.Now()
	left := r.Lease.Remaining()
	if left <= 0 {
		return
	}
	r.deadline = now.Add(left)
	r.guard.send(wire.Msg{Word: wire.Deadline, At: r.deadline})
}

// watch goes on until the command has ended by itself, or else the guard has gone and all that it said has been heard.
func (r *run) watch() {
	said, gone, held := r.guard.said, r.guard.gone, r.Held.Done()
	timer := time.NewTimer(0)
	for (said != nil || gone != nil) && (r.ended == nil || r.reason != "") {
		timer.Reset(r.next())
		select {
		case m, ok := <-said:
			if !ok {
				said = nil
				continue
			}
			r.hear(m)
		case <-gone:
			gone = nil
		case sig := <-r.Signals:
			r.forward(sig.(syscall.Signal))
		case <-r.Renewed:
			r.renew()
		case <-held:
			held = nil
			said = r.hearFirst(said)
			r.stop()
		case <-timer.C:
			if said = r.hearFirst(said); said != nil && gone != nil {
				r.look() // else there is nobody to act on, and settle sees to the rest
			}
		}
	}
}

// hearFirst hears what the guard has said already, before the wrapper acts by its own clock: it may have been frozen, and
// the command may have ended long ago and in time.
func (r *run) hearFirst(said chan wire.Msg) chan wire.Msg {
	enough := time.After(hearing)
	for said != nil {
		select {
		case m, ok := <-said:
			if !ok {
				return nil
			}
			r.hear(m)
		case <-enough:
			return said
		}
	}
	return nil
}

func (r *run) hear(m wire.Msg) {
	switch m.Word {
	case wire.Started:
		r.begun = true
		r.guard.tree.Command = int(m.N)
		for _, sig := range r.queued {
			r.forward(sig)
		}
		r.queued = nil
	case wire.Failed:
		r.failed = &m
	case wire.Paused:
		r.pause(syscall.Signal(m.N))
	case wire.Stopping:
		r.termed = true
		r.bidden = true
		r.ending(m.Text)
	case wire.Ended:
		r.ended = &m
		r.guard.tree.Command = 0
	}
}

// ending notes that the command is to end, from now on without a way back.
func (r *run) ending(reason string) {
	if r.reason != "" {
		return
	}
	if over := r.whyOver(); reason == wire.Lost && over != "" {
		reason = over // whoever saw the deadline pass does not know of a max hold
	}
	r.reason, r.since = reason, wire.Now()
	r.cause = context.Cause(r.Held)
	r.termAt = wire.Now().Add(backup)
	r.killAt = min(wire.Now().Add(r.KillAfter), r.deadline)
}

// stop tells the guard to end the command, because its lease is over.
func (r *run) stop() {
	if r.ended != nil || r.reason != "" {
		return
	}
	if reason := r.whyOver(); reason != "" {
		r.ending(reason)
		r.guard.send(wire.Msg{Word: wire.Stop, Text: reason})
	}
}
