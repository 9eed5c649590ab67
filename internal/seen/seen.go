// Package seen remembers the highest fencing token of each key that this process has seen, so that a store that
// forgot (a failover, a clock set back, a row removed) cannot hand out a lower one to it.
package seen

import (
	"container/list"
	"sync"
)

// Tokens is the memory. It keeps the keys seen last one by one and of all others the highest token in one
// number: a floor that is too high costs nothing, since stores take the time as a token, which is ahead of it.
type Tokens struct {
	mu     sync.Mutex
	size   int
	keys   map[string]*list.Element
	recent list.List // of entry, the latest first
	others int64
}

type entry struct {
	key   string
	token int64
}

// New returns a memory of size keys.
func New(size int) *Tokens {
	return &Tokens{size: size, keys: make(map[string]*list.Element)}
}

// Floor returns a token that is not below any that was noted for the key.
func (t *Tokens) Floor(key string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.keys[key]; ok {
		return e.Value.(entry).token
	}
	return t.others
}

// Note remembers a token of the key.
func (t *Tokens) Note(key string, token int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.keys[key]; ok {
		t.recent.MoveToFront(e)
		if token > e.Value.(entry).token {
			e.Value = entry{key, token}
		}
		return
	}
	t.keys[key] = t.recent.PushFront(entry{key, max(token, t.others)})
	if len(t.keys) > t.size {
		oldest := t.recent.Back()
		t.recent.Remove(oldest)
		gone := oldest.Value.(entry)
		delete(t.keys, gone.key)
		t.others = max(t.others, gone.token)
	}
}
