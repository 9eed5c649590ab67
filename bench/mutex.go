package main

import (
	"context"
	"slices"
	"sync"
)

// queued puts a contender behind a line of this process, first come first served: only the first speaks to the store.
type queued struct {
	contender
	mu    sync.Mutex
	lines map[string]*line
}

func (q *queued) lock(ctx context.Context, key string) (int64, func() error, error) {
	q.mu.Lock()
	l := q.lines[key]
	if l == nil {
		l = &line{}
		q.lines[key] = l
	}
	q.mu.Unlock()
	if err := l.enter(ctx); err != nil {
		return 0, nil, err
	}
	token, unlock, err := q.contender.lock(ctx, key)
	if err != nil {
		l.leave()
		return 0, nil, err
	}
	return token, func() error {
		defer l.leave()
		return unlock()
	}, nil
}

// line is a mutex that is passed on in the order of arrival.
type line struct {
	mu      sync.Mutex
	taken   bool
	waiting []chan struct{}
}

func (l *line) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	if !l.taken {
		l.taken = true
		l.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	l.waiting = append(l.waiting, mine)
	l.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	i := slices.Index(l.waiting, mine)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	l.mu.Unlock()
	if i < 0 { // it became ours in the same moment
		l.leave()
	}
	return ctx.Err()
}

func (l *line) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.taken = false
		return
	}
	close(l.waiting[0])
	l.waiting = l.waiting[1:]
}

// nothing is a contender without a store, which behind a line is a plain mutex.
type nothing struct{}

func openMutex(store, int) (contender, error) {
	return &queued{contender: nothing{}, lines: make(map[string]*line)}, nil
}

func (nothing) lock(context.Context, string) (int64, func() error, error) {
	return 0, func() error { return nil }, nil
}

func (nothing) close() error { return nil }
