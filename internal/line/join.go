package line

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// BusyError is what a waiter is told whose wait is over. The root package makes its public error of it.
type BusyError struct {
	// Holder is the last that is known of who has the key; its Token is 0 if that is nobody in particular.
	Holder dibsdriver.Record
	Left   time.Duration
}

func (*BusyError) Error() string { return "busy" }

// Forever is a wait that only its context ends.
const Forever time.Duration = -1

// waiter is one caller. Its fields belong to the lock of Lines until ready is closed.
type waiter struct {
	terms Terms
	// once: one attempt, no waiting.
	once bool
	// came is how many requests had been made before: their answers are not for this waiter.
	came int
	// contacted: the store has answered since this waiter came, or just before. Until then a failure is its answer; after it, it waits outages out.
	contacted bool

	ready chan struct{} // closed when grant or err is set
	grant *Grant
	err   error
}

func (w *waiter) fail(err error) {
	w.err = err
	close(w.ready)
}

// Join waits in line for the key, at most for wait: 0 is one attempt, Forever has no end. It returns within 50 ms of
// the end of ctx or of the wait.
func (ls *Lines) Join(ctx context.Context, key string, terms Terms, wait time.Duration) (Grant, error) {
	w := &waiter{terms: terms, once: wait == 0, ready: make(chan struct{})}

	ls.mu.Lock()
	if ls.closed != nil {
		ls.mu.Unlock()
		return Grant{}, ls.closed
	}
	l := ls.line(key)
	if w.once && (l.held != nil || len(l.waiters) > 0) {
		defer ls.mu.Unlock()
		switch { // an attempt does not jump the line
		case l.held == nil && l.failed != nil:
			return Grant{}, l.failed
		case l.silent():
			return Grant{}, fmt.Errorf("%w: %s has not answered yet who has the key", dibsdriver.ErrUnavailable, l.all.Limits.Store)
		}
		return Grant{}, l.busyError()
	}
	w.contacted, w.came = l.held != nil || l.answering(), l.asked
	l.waiters = append(l.waiters, w)
	n := len(l.waiters)
	lead := l.start()
	ls.mu.Unlock()
	if ls.Grew != nil {
		ls.Grew(key, n)
	}

	var over <-chan time.Time
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		over = t.C
	}
	if lead && l.lead(ctx, w, over) {
		return Grant{}, l.leave(w, nil)
	}
	select {
	case <-w.ready:
	case <-ctx.Done():
		return Grant{}, l.leave(w, ctx)
	case <-over:
		return Grant{}, l.leave(w, nil)
	}
	if w.err != nil {
		return Grant{}, w.err
	}
	if ctx.Err() != nil { // granted in the moment in which the context ended
		ls.mu.Lock()
		defer ls.mu.Unlock()
		l.passOn(*w.grant, w.terms)
		return Grant{}, l.reason(w, ctx)
	}
	return *w.grant, nil
}

// leave takes a waiter out of the line and says why it got nothing.
func (l *line) leave(w *waiter, ctx context.Context) error {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	err := l.reason(w, ctx)
	if i := slices.Index(l.waiters, w); i >= 0 {
		l.waiters = slices.Delete(l.waiters, i, i+1)
		l.wakeIfEmpty()
		l.drop()
		return err
	}
	if w.grant != nil { // decided in the same moment: its place is another's now
		l.passOn(*w.grant, w.terms)
	} else if w.err != nil && ctx == nil {
		return w.err
	}
	return err
}

// silence is how long a request may go unanswered before the store counts as silent.
const silence = time.Second

// answering reports whether the store's last answer is so fresh that it counts for whoever comes now.
func (l *line) answering() bool {
	return l.failed == nil && !l.heardAt.IsZero() && time.Since(l.heardAt) < silence
}

// silent reports whether the request under way has gone unanswered for so long that nobody can say what the key is.
func (l *line) silent() bool { return !l.askedAt.IsZero() && time.Since(l.askedAt) > silence }

// reason is what a waiter is told that leaves: busy if the store said so, unavailable if it did not answer.
func (l *line) reason(w *waiter, ctx context.Context) error {
	known := w.contacted || l.held != nil || l.busy != nil
	var why error
	switch {
	case l.failed != nil:
		why = l.failed
	case l.silent() || !known:
		why = fmt.Errorf("%w: %s has not answered yet; the request is taken back", dibsdriver.ErrUnavailable, l.all.Limits.Store)
	default:
		why = l.busyError()
	}
	if ctx == nil {
		return why
	}
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, err) {
		err = errors.Join(err, cause)
	}
	return errors.Join(err, why)
}

func (l *line) busyError() *BusyError {
	switch {
	case l.held != nil:
		e := &BusyError{Holder: l.held.record, Left: l.held.left()}
		e.Holder.ExpiresIn = e.Left
		return e
	case l.busy != nil:
		return &BusyError{Holder: *l.busy, Left: max(0, l.busy.ExpiresIn-time.Since(l.heardAt))}
	default:
		return &BusyError{}
	}
}

// passOn gives a lease that its waiter does not want any more to the next in line, or back to the store. It is called with
// the lock held.
func (l *line) passOn(g Grant, terms Terms) {
	if g.fresh(terms) && l.giveNext(g, terms) {
		return
	}
	l.held = nil
	l.giveBack(g)
	l.wake()
	l.drop()
}

// fresh tells whether enough of the lease is left for the next to have it.
func (g *Grant) fresh(t Terms) bool {
	if g.Lease != nil {
		return g.Lease.Remaining() >= t.window()/2
	}
	return time.Since(g.Started) < t.window()/2
}
