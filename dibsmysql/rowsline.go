package dibsmysql

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// rowLine is who waits for a row in this process, first come first served. The line asks the server, for whoever is its head when the answer comes: so it
// needs one connection, however many wait, and a waiter that leaves costs the others nothing, least of all their turn in the server's own queue.
type rowLine struct {
	r    *Rows
	name string
	id   int64

	mu      sync.Mutex
	waiting []*rowWaiter
	held    *rowHold           // by whom the row is held in this process
	stop    context.CancelFunc // ends the attempt under way
	starved bool               // the attempt waits for a connection
	watched bool               // the watch has a connection for the line (the line's goroutine alone uses this)
	busyNow bool               // the server has said, in this attempt, that the row is locked
	outage  error              // what the server's silence looks like at present
	gone    bool               // it has ended; a new one takes its place
}

type rowWaiter struct {
	answer chan rowAnswer // has room for one
	once   bool           // one attempt: it does not wait for the row
	nested bool           // its caller has a row already, and a connection for it
	heard  bool           // the server has answered since it came
	began  time.Time
}

// join stands in the line, and starts it if it is new.
func (r *Rows) join(name string, id int64, w *rowWaiter) (*rowLine, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lines[name]
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
	}
	if l == nil || l.gone {
		l = &rowLine{r: r, name: name, id: id, waiting: []*rowWaiter{w}}
		r.lines[name] = l
		go l.run()
		return l, nil
	}
	switch {
	case w.once && l.held == nil && l.outage != nil:
		return nil, l.outage
	case w.once && (l.held != nil || len(l.waiting) > 0):
		return nil, l.busy()
	case w.nested && l.starved:
		return nil, l.noneLeft()
	}
	w.heard = l.held != nil || l.busyNow
	l.waiting = append(l.waiting, w)
	return l, nil
}

// leave is false if the waiter has its answer already.
func (l *rowLine) leave(w *rowWaiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, w)
	if i < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	if len(l.waiting) == 0 && l.stop != nil {
		l.stop()
	}
	return true
}

// run serves the line until nobody is left.
func (l *rowLine) run() {
	for {
		ctx, stop := context.WithCancel(context.Background())
		if !l.begin(stop) {
			stop()
			if l.watched { // those for whom it was kept have left while the row was held
				l.watched = false
				l.r.watch.leave()
			}
			return
		}
		h, err := l.lock(ctx)
		if ctx.Err() != nil {
			err = nil // all have left; who has come since then begins anew
		}
		h = l.deliver(h, err)
		stop()
		if l.watched && (h == nil || l.empty()) {
			l.watched = false
			l.r.watch.leave()
		}
		if h != nil {
			<-h.done
		}
	}
}

func (l *rowLine) begin(stop context.CancelFunc) bool {
	l.r.mu.Lock() // so that nobody joins a line that has ended
	defer l.r.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.gone = true
		if l.r.lines[l.name] == l {
			delete(l.r.lines, l.name)
		}
		return false
	}
	l.stop, l.busyNow, l.outage = stop, false, nil
	return true
}

// deliver gives the row to the head of the line, or an error to all. It returns the hold if somebody has it now.
func (l *rowLine) deliver(h *rowHold, err error) *rowHold {
	l.mu.Lock()
	l.stop = nil
	if h == nil {
		l.answer(err, func(*rowWaiter) bool { return err != nil })
		l.mu.Unlock()
		return nil
	}
	if len(l.waiting) == 0 {
		l.mu.Unlock()
		h.giveUp()
		return nil
	}
	w := l.waiting[0]
	l.waiting = l.waiting[1:]
	l.held = h
	w.answer <- rowAnswer{hold: h}
	// The others have been told, by that, that the server answers.
	for _, w := range l.waiting {
		w.heard = true
	}
	l.mu.Unlock()
	return h
}

// answer sends those away that which picks. Without an error the row is busy. The line's mutex is held.
func (l *rowLine) answer(err error, which func(*rowWaiter) bool) {
	l.waiting = slices.DeleteFunc(l.waiting, func(w *rowWaiter) bool {
		if !which(w) {
			return false
		}
		a := rowAnswer{err: err}
		if err == nil {
			a.err = l.busy()
		}
		w.answer <- a
		return true
	})
	if len(l.waiting) == 0 && l.stop != nil {
		l.stop()
	}
}

// freed: the row is not held in this process any more. That is known here before the caller of Do knows it, who may call again at once.
func (l *rowLine) freed(h *rowHold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == h {
		l.held = nil
	}
}

func (l *rowLine) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting) == 0
}

// hurried tells whether the head of the line does not wait.
func (l *rowLine) hurried() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting) > 0 && l.waiting[0].once
}

// answered: the row is locked by somebody else.
func (l *rowLine) answered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busyNow, l.outage = true, nil
	for _, w := range l.waiting {
		w.heard = true
	}
	l.answer(nil, func(w *rowWaiter) bool { return w.once })
}

// silent: the server did not answer. Those who have never heard of it are told at once, the others wait the outage out.
func (l *rowLine) silent(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busyNow, l.outage = false, err
	l.answer(err, func(w *rowWaiter) bool { return !w.heard })
}

// refusal is the answer for a waiter that left.
func (l *rowLine) refusal(w *rowWaiter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.outage != nil:
		return l.outage
	case l.starved:
		return l.noneLeft()
	case !w.heard:
		return named(fmt.Errorf("dibs: %s: row lock %q: the server did not answer within %s", l.r.d.name(), l.name, time.Since(w.began).Round(time.Millisecond)),
			dibsdriver.ErrUnavailable)
	}
	return l.busy()
}

// busy says what is known. The server tells nobody but its administrators who has locked a row.
func (l *rowLine) busy() error {
	e := &dibs.BusyError{Key: l.name}
	text := "held by a transaction elsewhere"
	if l.held != nil {
		e.Holder = dibs.Info{Key: l.name, Holder: "this process", Since: l.held.since}
		text = fmt.Sprintf("held by this process for %s", time.Since(l.held.since).Round(time.Millisecond))
	}
	return named(fmt.Errorf("dibs: %s: row lock %q is busy: %s, %d more of this process waiting", l.r.d.name(), l.name, text, len(l.waiting)), e)
}

func (l *rowLine) noneLeft() error {
	return named(fmt.Errorf("dibs: %s: row lock %q: all %d connections for row locks are in use, each by a transaction that has a row or waits for one; raise RowsConfig.MaxConns",
		l.r.d.name(), l.name, cap(l.r.slots)), dibsdriver.ErrUnavailable)
}
