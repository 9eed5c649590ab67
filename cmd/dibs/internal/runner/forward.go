//go:build unix

package runner

import (
	"slices"
	"syscall"

	"github.com/dibs-go/dibs/cmd/dibs/internal/signals"
)

// catchMore catches what is passed on to a running command only: while the wrapper waits for its key, a resized terminal is nothing to
// it, and Ctrl-Z stops it as it stops any other program.
func (r *run) catchMore() { signals.Catch(r.Signals, signals.Running...) }

// interrupted is the first ending signal that came before the command was started, or 0.
func (r *run) interrupted() syscall.Signal {
	for {
		select {
		case sig := <-r.Signals:
			if slices.Contains(signals.Ending, sig) {
				return sig.(syscall.Signal)
			}
		default:
			return 0
		}
	}
}

// forward passes a signal on to the command and all that it has started; the guard lets it pass. Before the command runs, there is nobody
// to get it.
func (r *run) forward(sig syscall.Signal) {
	switch {
	case sig == syscall.SIGPIPE:
		// It is caught so that a closed stderr does not end this process. Nobody sent it.
	case !r.begun:
		r.queued = append(r.queued, sig)
	case r.ended != nil:
		// What the command left in the background is not ours to signal any more.
	default:
		r.guard.tree.Signal(sig)
	}
}
