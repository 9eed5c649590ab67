package call

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// Call is a request on its way. Whoever waits for it waits for [Call.Done] beside a timer, and may give up; the
// answer can still be had later.
type Call[T any] struct {
	// Started is when the request was made: trust windows count from here.
	Started time.Time

	done  chan struct{}
	value T
	err   error
}

// Start makes a request that may take as long as limit.
func Start[T any](g *Group, limit time.Duration, request func(ctx context.Context) (T, error)) *Call[T] {
	c := &Call[T]{Started: time.Now(), done: make(chan struct{})}
	g.Go(func(ctx context.Context) {
		defer close(c.done)
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		defer func() {
			// A driver's bug must not take the process down from a goroutine where nobody can recover it.
			if p := recover(); p != nil {
				c.err = fmt.Errorf("%w: the driver panicked: %v", dibsdriver.ErrRefused, p)
			}
		}()
		c.value, c.err = request(ctx)
	})
	return c
}

// Done is closed when the answer is there.
func (c *Call[T]) Done() <-chan struct{} { return c.done }

// Result returns the answer. Call it after Done.
func (c *Call[T]) Result() (T, error) { return c.value, c.err }

// Wait returns the answer, or ok = false if there is none when the limit has passed since the start.
func (c *Call[T]) Wait(limit time.Duration) (value T, err error, ok bool) {
	select {
	case <-c.done: // also if the limit has passed since: a process that was held up finds both
		return c.value, c.err, true
	default:
	}
	t := time.NewTimer(time.Until(c.Started.Add(limit)))
	defer t.Stop()
	select {
	case <-c.done:
		return c.value, c.err, true
	case <-t.C:
		return value, nil, false
	}
}
