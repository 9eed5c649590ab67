//go:build unix

package cli

import (
	"context"
	"os"
	"syscall"
)

// waiting is the time in which a signal ends the wait.
type waiting struct {
	ctx    context.Context
	cancel context.CancelFunc
	over   chan struct{}
	got    chan syscall.Signal
}

// waitFor begins it. All signals that are caught count, but for PIPE, which nobody has sent.
func waitFor(caught <-chan os.Signal) *waiting {
	w := &waiting{over: make(chan struct{}), got: make(chan syscall.Signal, 1)}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	go func() {
		for {
			select {
			case sig := <-caught:
				if sig != syscall.SIGPIPE {
					w.got <- sig.(syscall.Signal)
					w.cancel()
					return
				}
			case <-w.over:
				w.got <- 0
				return
			}
		}
	}()
	return w
}

// stop ends it and answers which signal came, or 0. From then on signals stay in the channel. The context lives on without a
// signal: the work's context is made of it.
func (w *waiting) stop() syscall.Signal {
	close(w.over)
	return <-w.got
}
