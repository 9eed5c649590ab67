package dibs

import "context"

// heldKey is the key of a context's innermost *held.
type heldKey struct{}

// held is a lock that a context carries; those further out are behind it.
type held struct {
	lock  *Lock
	outer *held
}

func heldIn(ctx context.Context) *held {
	h, _ := ctx.Value(heldKey{}).(*held)
	return h
}

// heldBy returns the section in which the context holds the key of this engine, nil if none. One that has ended does not count.
func (e *engine) heldBy(ctx context.Context, full string) *section {
	for h := heldIn(ctx); h != nil; h = h.outer {
		if s := h.lock.section; s.engine == e && s.full == full && s.lives() {
			return s
		}
	}
	return nil
}

// FromContext returns the lock that Do or Acquire put into the context for this key, the innermost if there are several. It may have
// ended: see [Lock.Err].
func FromContext(ctx context.Context, key string) (*Lock, bool) {
	for h := heldIn(ctx); h != nil; h = h.outer {
		if h.lock.key == key {
			return h.lock, true
		}
	}
	return nil, false
}
