// Package outbox delivers events and log records outside of the engine's goroutines: a user's function that blocks (a log
// that goes to a full pipe, say) must not hold up a renewal or a loss.
package outbox

import (
	"context"
	"sync"

	"github.com/dibs-go/dibs/internal/call"
)

// Outbox runs functions one after another, in the order in which they were posted. Its goroutine lives while there is
// something to deliver.
type Outbox struct {
	group *call.Group

	mu      sync.Mutex
	queue   []func()
	running bool
}

// limit bounds what a user's function that never returns can make us keep.
const limit = 100_000

// New returns an outbox whose goroutine belongs to the group.
func New(group *call.Group) *Outbox { return &Outbox{group: group} }

// Post puts deliver in the queue and returns at once. When too much is waiting, it is dropped.
func (o *Outbox) Post(deliver func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) >= limit {
		return
	}
	o.queue = append(o.queue, deliver)
	if !o.running {
		o.running = true
		o.group.Go(o.run)
	}
}

func (o *Outbox) run(context.Context) {
	for {
		o.mu.Lock()
		batch := o.queue
		o.queue = nil
		if len(batch) == 0 {
			o.running = false
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		for _, deliver := range batch {
			deliver()
		}
	}
}
