// Package call runs requests to a store in goroutines of their own, because no caller and no timer may depend on
// a store that hangs, and owns those goroutines.
package call

import (
	"context"
	"sync"
)

// Group owns goroutines. Its context ends with [Group.Cancel] only, never with a caller's.
type Group struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when n falls to 0; nil if nobody waits
}

// NewGroup returns an empty group.
func NewGroup() *Group {
	ctx, cancel := context.WithCancel(context.Background())
	return &Group{ctx: ctx, cancel: cancel}
}

// Go runs f in a goroutine of the group.
func (g *Group) Go(f func(ctx context.Context)) {
	g.mu.Lock()
	g.n++
	g.mu.Unlock()
	go func() {
		defer g.done()
		f(g.ctx)
	}()
}

func (g *Group) done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n--
	if g.n == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// Wait returns when the group is empty, or with the context's error.
func (g *Group) Wait(ctx context.Context) error {
	g.mu.Lock()
	if g.n == 0 {
		g.mu.Unlock()
		return nil
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	idle := g.idle
	g.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Cancelled tells whether the context of the group's goroutines has ended.
func (g *Group) Cancelled() bool { return g.ctx.Err() != nil }

// Cancel ends the context of all goroutines of the group.
func (g *Group) Cancel() { g.cancel() }
