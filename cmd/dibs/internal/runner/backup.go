//go:build unix

package runner

import (
	"context"
	"errors"
	"time"

	"github.com/dibs-go/dibs/cmd/dibs/internal/wire"
)

const (
	// pollGroup is how often the wrapper looks whether anything is left, once all is to end.
	pollGroup = 10 * time.Millisecond
	// killPatience is how long it goes on to kill what does not die: it may hang in the kernel, or belong to another user.
	killPatience = 3 * time.Second
)

// whyOver is the reason for which the work's context ended.
func (r *run) whyOver() string {
	switch {
	case r.Held.Err() == nil:
		return ""
	case r.TooLong != nil && errors.Is(context.Cause(r.Held), r.TooLong):
		return wire.MaxHold
	default:
		return wire.Lost
	}
}

// next is the time until the wrapper has to act where the guard should have.
func (r *run) next() time.Duration {
	switch {
	case r.reason == "":
		return r.deadline.Add(backup - r.KillAfter).Until()
	case !r.termed:
		return r.termAt.Until()
	default:
		return r.killAt.Until()
	}
}

// look acts in the place of a guard that did not: it may be stopped, or starved.
func (r *run) look() {
	if r.ended != nil && r.reason == "" || r.next() > 0 {
		return
	}
	switch {
	case r.reason == "":
		r.ending(wire.Lost)
		r.terminate()
	case !r.termed:
		r.terminate()
	default:
		r.guard.tree.Kill() // the guard too; then its pipe ends, and watch with it
		r.killAt = wire.Now().Add(backup)
	}
}

func (r *run) terminate() {
	r.termed = true
	r.guard.tree.Terminate()
}

// settle makes the outcome, and sees to it that nothing is left of a command that had to end.
func (r *run) settle() Outcome {
	if r.ended == nil && r.failed == nil && r.reason == "" {
		// The guard died without a word: somebody has killed it. Without it nothing would end the command when this process
		// is killed or frozen, so the command ends now, while the lease is still good.
		r.ending(guardLost)
		r.terminate()
	}
	if r.ended != nil && !r.bidden && r.ended.At < r.since {
		r.reason = "" // it had ended before this process, frozen meanwhile, found a reason
	}
	out := Outcome{Cause: r.cause, Deadline: r.deadline}
	if r.reason != "" {
		out.Alive = r.clear()
		out.Escaped = r.guard.tree.Escaped()
	}
	switch {
	case r.reason == guardLost:
		out.Kind = GuardLost
	case r.reason == wire.MaxHold:
		out.Kind = TooLong
	case r.reason != "":
		out.Kind = Lost
	case r.failed != nil:
		out.Kind, out.Status, out.Message = NotRun, int(r.failed.N), r.failed.Text
	case r.lostBefore(r.ended.At):
		out.Kind, out.Cause, out.ByItself, out.Status = Lost, context.Cause(r.Held), true, int(r.ended.N)
	default:
		out.Kind, out.Status = Ended, int(r.ended.N)
	}
	return out
}

const guardLost = "guard lost"

// lostBefore tells whether the lease was over when the command ended by itself at that time. That the work's context has ended by
// now is no proof: this process may have been frozen since. It is one if the store said so before the lease's time was over.
func (r *run) lostBefore(end wire.Mono) bool {
	return end > r.deadline || r.whyOver() == wire.Lost && wire.Now() < r.deadline
}

// clear waits until nothing of the command is left, and kills it when its time is over. It answers whether something lives all the same.
func (r *run) clear() (alive bool) {
	patience := max(r.killAt, wire.Now()).Add(killPatience)
	for {
		alive, known := r.guard.tree.Alive()
		switch {
		case known && !alive:
			return false
		case patience.Until() <= 0:
			return alive
		case r.killAt.Until() <= 0:
			r.guard.tree.Kill()
		}
		if !known && r.killAt.Until() < -backup {
			return false // where the system does not tell, KILL has to be believed in
		}
		time.Sleep(pollGroup)
	}
}
