package dibsdrivertest

import (
	"testing"
	"time"

	"github.com/dibs-go/dibs"
)

// trouble is a way in which a store goes away for one of its clients: in the moves of its driver, or on the wire to its server.
type trouble struct {
	moves Fault
	wire  func(*Proxy)
}

func inMoves(f Fault) trouble { return trouble{moves: f} }

func onWire(f func(*Proxy)) trouble { return trouble{wire: f} }

// slowWire holds up what goes to the server, and what comes back.
func slowWire(up, down time.Duration) trouble { return onWire(func(p *Proxy) { p.Delay(up, down) }) }

// answerThenCut: the request arrives, and the connection ends before the answer does.
func answerThenCut(p *Proxy) {
	p.HoleReplies()
	time.AfterFunc(300*time.Millisecond, p.Reset)
}

// link is one client's way to its store. It counts what goes there, like every FaultyDriver, and has its trouble when a case says so.
type link struct {
	*FaultyDriver
	trouble trouble
	wire    *Proxy
}

// link returns a driver of its own whose trouble has not begun.
func (e *env) link(tr trouble) *link {
	l := e.openLink(tr)
	e.Cleanup(func() { l.inner.Close() })
	return l
}

// openLink is link for who closes the driver.
func (e *env) openLink(tr trouble) *link {
	e.Helper()
	l := &link{trouble: tr}
	store := e.store
	if tr.wire != nil {
		n := store.(Networked)
		l.wire = NewProxy(e, n.Addr())
		store = n.Via(l.wire.Addr())
	}
	l.FaultyDriver = Faulty(store.Driver(e))
	return l
}

// linked returns a Locker and its way to the store. On the wire there are connections already, as in any process that has worked for a while: a store
// that goes away at the first handshake is another matter (L6).
func (e *env) linked(cfg dibs.Config, tr trouble) (*dibs.Locker, *link) {
	e.Helper()
	l := e.link(tr)
	a := e.lockerOn(l.Driver(), cfg)
	e.Cleanup(l.Heal) // before the shutdown
	if l.wire != nil {
		e.free(a, "warm up", 10*time.Second)
	}
	return a, l
}

// patience is a limit of a request's time: in real time thrice that, as a loaded machine takes its part of it.
func (e *env) patience(d time.Duration) time.Duration {
	if e.exact {
		return d
	}
	return 3 * d
}

// begin has the trouble begin.
func (l *link) begin() {
	if l.trouble.wire != nil {
		l.trouble.wire(l.wire)
		return
	}
	l.OnAll(l.trouble.moves)
}

// Heal ends the trouble. What was cut has to be dialled anew.
func (l *link) Heal() {
	if l.wire != nil {
		l.wire.Pass()
	}
	l.FaultyDriver.Heal()
}

// Through makes stores of the same kind that are reached through a [Proxy] each, by drivers and by helper processes, after spoil has done to it
// whatever is to be tested.
func Through(f Factory, spoil func(*Proxy)) Factory {
	direct := f.New
	f.New = func(t testing.TB) Store {
		t.Helper()
		n := direct(t).(Networked)
		p := NewProxy(t, n.Addr())
		spoil(p)
		return n.Via(p.Addr())
	}
	return f
}
