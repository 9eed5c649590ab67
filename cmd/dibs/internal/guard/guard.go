//go:build unix

package guard

import (
	"bytes"
	"os"
	"time"

	"github.com/dibs-go/dibs/cmd/dibs/internal/procgroup"
	"github.com/dibs-go/dibs/cmd/dibs/internal/wire"
)

// poll is how often the guard looks whether anything is left, once all is to end.
const poll = 10 * time.Millisecond

type guard struct {
	tree      *procgroup.Tree
	killAfter time.Duration
	command   []string
	status    *os.File
	events    chan event // of COMMAND

	deadline wire.Mono // until then the lease is good
	running  bool      // COMMAND was started
	stopping bool      // all was sent TERM: there is no way back
	killAt   wire.Mono // when it is sent KILL, if stopping
	ended    bool      // COMMAND ended, but something that it has started may live
}

// live goes on until COMMAND has ended, or all that it has started is dead.
func (g *guard) live(control <-chan wire.Msg) int {
	timer := time.NewTimer(0)
	for {
		timer.Reset(g.next())
		select {
		case m, ok := <-control:
			switch {
			case ok:
				if done := g.hear(m); done {
					return 0
				}
			case !g.running:
				return 0 // the wrapper gave up, or is gone, before anything was run
			default:
				control = nil
				g.stop(wire.Alone)
			}
		case e := <-g.events:
			if done := g.see(e); done {
				return 0
			}
		case <-timer.C:
			if done := g.look(); done {
				return 0
			}
		}
	}
}

// next is the time until the guard has to look at the clock.
func (g *guard) next() time.Duration {
	switch {
	case !g.running:
		return time.Hour
	case !g.stopping:
		return g.deadline.Add(-g.killAfter).Until()
	case g.ended:
		return min(poll, g.killAt.Until())
	default:
		return g.killAt.Until()
	}
}

func (g *guard) hear(m wire.Msg) (done bool) {
	switch m.Word {
	case wire.Deadline:
		// Once COMMAND was sent TERM, a renewal that came too late changes nothing: COMMAND was told to end.
		if !g.stopping {
			g.deadline = m.At
		}
	case wire.Go:
		return !g.begin(m.Text)
	case wire.Stop:
		g.stop(m.Text)
	}
	return false
}

// begin starts COMMAND, with its lock's variables.
func (g *guard) begin(vars string) bool {
	if g.deadline.Add(-g.killAfter).Until() <= 0 {
		g.say(wire.Msg{Word: wire.Stopping, Text: wire.Lost})
		return false
	}
	env := os.Environ()
	for v := range bytes.SplitSeq([]byte(vars), []byte{0}) {
		env = append(env, string(v))
	}
	pid, status, err := start(g.command, env)
	if err != nil {
		g.say(wire.Msg{Word: wire.Failed, N: int64(status), Text: err.Error()})
		return false
	}
	g.running = true
	g.tree.Command = pid
	g.say(wire.Msg{Word: wire.Started, N: int64(pid)})
	go watch(pid, g.events)
	return true
}

// see takes note of what became of COMMAND.
func (g *guard) see(e event) (done bool) {
	if e.paused != 0 {
		g.say(wire.Msg{Word: wire.Paused, N: int64(e.paused)})
		return false
	}
	g.say(wire.Msg{Word: wire.Ended, N: int64(e.status), At: e.at})
	g.ended = true
	g.tree.Command = 0
	// What COMMAND left in the background after a normal end is its own affair. What is left after a TERM has lost
	// its lock, so the guard stays until nothing of it lives.
	return !g.stopping || g.empty()
}

// look acts on the time.
func (g *guard) look() (done bool) {
	switch {
	case !g.running:
	case !g.stopping:
		if g.deadline.Add(-g.killAfter).Until() <= 0 {
			g.stop(wire.Lost)
		}
	case g.killAt.Until() <= 0:
		g.kill()
	case g.ended:
		return g.empty()
	}
	return false
}

// stop sends TERM; KILL follows after killAfter, or when the lease ends, whichever is first.
func (g *guard) stop(reason string) {
	if g.stopping || !g.running {
		return
	}
	g.stopping = true
	g.killAt = min(wire.Now().Add(g.killAfter), g.deadline)
	g.tree.Terminate()
	g.say(wire.Msg{Word: wire.Stopping, Text: reason})
}

// kill is the guard's last act: it is in the group itself. What runs under another dibs inside COMMAND goes with it: that one's own lease may have
// long to go, but it is a part of COMMAND like any other.
func (g *guard) kill() {
	g.say(wire.Msg{Word: wire.Killing})
	g.tree.Kill()
	os.Exit(1) // not reached
}

// empty tells whether nothing but the guard is left. Where the system cannot tell, KILL will settle it.
func (g *guard) empty() bool {
	alive, known := g.tree.Alive()
	return known && !alive
}

func (g *guard) say(m wire.Msg) { wire.Send(g.status, m) }
