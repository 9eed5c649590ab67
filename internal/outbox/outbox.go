// Package outbox delivers events and log records outside of the engine's goroutines: a user's function that blocks (a log
// that goes to a full pipe, say) must not hold up a renewal or a loss.
package outbox

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/dibs-go/dibs/internal/call"
)

// Outbox runs functions one after another, in the order in which they were posted. Its goroutine lives while there is
// something to deliver.
type Outbox struct {
	group *call.Group // of nobody else, so that nobody who waits for the engine's goroutines waits for a user's function

	mu      sync.Mutex
	queue   []func()
	running bool
	taken   time.Time // when the last delivery began
	closed  bool
}

// Rank is how much it matters that something is delivered: if its receiver does not keep up, what matters least is dropped first.
type Rank int

const (
	// Frequent is what comes again and again.
	Frequent Rank = iota
	// Usual is what comes as often as callers like.
	Usual
	// Grave is what somebody should know.
	Grave
	// Owed is never dropped. It follows from something that was taken, a bounded number of times.
	Owed
)

// limits are how many may wait for something of a rank to be taken: they bound what a user's function that never returns can make us keep.
var limits = [...]int{Frequent: 10_000, Usual: 100_000, Grave: 200_000, Owed: math.MaxInt}

// patience is how long Drain waits for one function.
const patience = time.Second

// New returns an empty outbox.
func New() *Outbox { return &Outbox{group: call.NewGroup()} }

// Post puts deliver in the queue and returns at once. It returns false, and drops it, when too much is waiting.
func (o *Outbox) Post(r Rank, deliver func()) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.room(r) {
		return false
	}
	o.queue = append(o.queue, deliver)
	if !o.running {
		o.running = true
		o.group.Go(o.run)
	}
	return true
}

// Room reports whether something of that rank would be taken now.
func (o *Outbox) Room(r Rank) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.room(r)
}

// room is called with the lock held.
func (o *Outbox) room(r Rank) bool { return !o.closed && len(o.queue) < limits[r] }

func (o *Outbox) run(context.Context) {
	over := false
	defer func() {
		if !over { // a function has ended its goroutine (runtime.Goexit, as t.FailNow does): another one goes on
			o.group.Go(o.run)
		}
	}()
	for f := o.next(); f != nil; f = o.next() {
		deliver(f)
	}
	over = true
}

// next returns what is to be delivered; nil if nothing is left, and then the goroutine has to end.
func (o *Outbox) next() func() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		o.running, o.queue = false, nil
		return nil
	}
	f := o.queue[0]
	o.queue[0] = nil
	o.queue = o.queue[1:]
	o.taken = time.Now()
	return f
}

// deliver lets no panic through. Whoever posts a user's function reports its panics; what comes here is that the report panicked.
func deliver(f func()) {
	defer func() { _ = recover() }()
	f()
}

// Drain waits until all is delivered: until ctx ends at most, and no longer than its patience for any one function, which may be the one that calls it. What is left then is
// delivered after that; what is posted later is dropped.
func (o *Outbox) Drain(ctx context.Context) {
	began := time.Now()
	for !o.idle(ctx, began) {
		if ctx.Err() != nil || time.Since(o.since(began)) >= patience {
			o.close()
			return
		}
	}
}

// idle waits until all is delivered, or until the function under way has taken too long.
func (o *Outbox) idle(ctx context.Context, began time.Time) bool {
	ctx, cancel := context.WithDeadline(ctx, o.since(began).Add(patience))
	defer cancel()
	return o.group.Wait(ctx) == nil
}

// since is from when on Drain waits for the function under way.
func (o *Outbox) since(began time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.taken.After(began) {
		return o.taken
	}
	return began
}

func (o *Outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}
