//go:build unix

package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/cmd/dibs/internal/exit"
	"github.com/dibs-go/dibs/cmd/dibs/internal/runner"
	"github.com/dibs-go/dibs/cmd/dibs/internal/wire"
)

// report makes of an outcome the status, and of all that is not COMMAND's own end the line that says why.
func report(f *runFlags, o *opened, token int64, outcome runner.Outcome, released error) (int, error) {
	if outcome.Kind == runner.Ended && errors.Is(released, dibs.ErrLost) && wire.Now() < outcome.Deadline {
		// While the lease could still be believed in, the store knew better: somebody has broken it under COMMAND.
		outcome.Kind, outcome.Cause, outcome.ByItself = runner.Lost, released, true
	}
	where := fmt.Sprintf("%q (token %d, on %s)", f.key, token, o.Name)
	stopped := stoppedOrNot(outcome)
	switch outcome.Kind {
	case runner.Interrupted:
		return 0, interrupted(f.key, outcome.Signal)
	case runner.NotRun:
		return 0, exit.Errorf(outcome.Status, "%s", outcome.Message)
	case runner.TooLong:
		return 0, exit.Errorf(exit.MaxHold, "%s: COMMAND ran longer than --max-hold %s and %s; raise it if that is to be expected",
			where, f.maxHold.D, stopped)
	case runner.GuardLost:
		return 0, exit.Errorf(exit.Lost, "%s: the guard process of COMMAND was killed, and without it COMMAND was not safe and %s", where, stopped)
	case runner.Lost:
		if outcome.ByItself {
			stopped = fmt.Sprintf("had not ended by then, and ended by itself with status %d", commandStatus(outcome.Status))
		}
		return 0, exit.Errorf(exit.Lost, "%s: lock lost: %s; COMMAND %s, and another may hold the key now (dibs ls)",
			where, why(o, outcome.Cause), stopped)
	}
	if released != nil {
		exit.Say(os.Stderr, fmt.Sprintf("%s: COMMAND has ended, but the lock could not be released: %s", where, unreleased(f, o, released)))
	}
	return commandStatus(outcome.Status), nil
}

// stoppedOrNot is what became of a COMMAND that had to end. What is known to live was not stopped.
func stoppedOrNot(outcome runner.Outcome) string {
	const taken = ", so the key stays taken until the lease ends"
	switch {
	case outcome.Alive:
		return "was told to end; not all of its processes could be killed" + taken
	case len(outcome.Escaped) > 0:
		pids := strings.Trim(fmt.Sprint(outcome.Escaped), "[]")
		return "was told to end; what has left its session (setsid) was not, and goes on (pid " + pids + ")" + taken
	}
	return "was stopped"
}

// unreleased is what there is to say of a lock that was not released. The library tells that of a program that lives on, which goes on trying.
func unreleased(f *runFlags, o *opened, err error) string {
	if !errors.Is(err, dibs.ErrUnavailable) {
		return o.Words(err.Error())
	}
	for cause := errors.Unwrap(err); cause != nil && strings.HasPrefix(err.Error(), "releasing "); cause = errors.Unwrap(err) {
		err = cause
	}
	text := o.WithoutName(strings.TrimPrefix(o.Words(err.Error()), "dibs: "))
	return fmt.Sprintf("%s; the key is free in %s at the latest", text, max(f.ttl.D, f.minHold.D)+requestLimit)
}

// why is what a cause says besides that the lock was lost, which stands before it.
func why(o *opened, cause error) string {
	if cause == nil {
		return "the lease was not renewed in time"
	}
	rest, cut := strings.CutPrefix(cause.Error(), dibs.ErrLost.Error())
	switch {
	case !cut:
		return o.Words(cause.Error())
	case rest == "":
		return "the lease is not this run's any more"
	}
	return o.Words(strings.TrimPrefix(rest, ": "))
}

// commandStatus is the status that a shell would show.
func commandStatus(wait int) int {
	ws := syscall.WaitStatus(wait)
	if ws.Signaled() {
		return exit.Signal + int(ws.Signal())
	}
	return ws.ExitStatus()
}
