package dibssqlite

import (
	"context"
	"slices"
	"sync"
)

// turnstile lets one call of this process at a time go for the file's write lock, first come first served, so that goroutines do
// not fight for it by polling. Urgent ones (renewals) go before all others.
type turnstile struct {
	mu             sync.Mutex
	taken          bool
	urgent, others []chan struct{} // who waits; empty if not taken
}

func (t *turnstile) enter(ctx context.Context, urgent bool) error {
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return nil
	}
	queue := &t.others
	if urgent {
		queue = &t.urgent
	}
	mine := make(chan struct{})
	*queue = append(*queue, mine)
	t.mu.Unlock()

	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(*queue, mine)
	if i >= 0 {
		*queue = slices.Delete(*queue, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 { // it became ours in the same moment
		t.leave()
	}
	return ctx.Err()
}

func (t *turnstile) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, queue := range []*[]chan struct{}{&t.urgent, &t.others} {
		if len(*queue) > 0 {
			close((*queue)[0])
			*queue = slices.Delete(*queue, 0, 1)
			return
		}
	}
	t.taken = false
}

// giveWay lets urgent ones go first, if there are any. After an error the turn is not ours any more.
func (t *turnstile) giveWay(ctx context.Context) error {
	t.mu.Lock()
	someone := len(t.urgent) > 0
	t.mu.Unlock()
	if !someone {
		return nil
	}
	t.leave()
	return t.enter(ctx, false)
}
