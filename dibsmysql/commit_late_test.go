package dibsmysql

import (
	"context"
	"database/sql"
	"testing"
	"time"
)

// TestS7_CommittedAndThenSlow: a commit that was acknowledged is no unknown outcome, if the server falls silent after it and the context has ended.
func TestS7_CommittedAndThenSlow(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		w := newWire(t, b.Addr)
		d := b.through(t, w, "")
		l := locker(t, d, nil)
		lock, _, err := l.Acquire(within(t), "k")
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the holder has the baton", func() bool { return !b.batonFree(t, d, "k") && !d.claiming("k") })
		w.set(func(w *wire) { w.deafAt = "RELEASE_LOCK(" })
		ctx, cancel := context.WithCancel(within(t))
		committed := make(chan error, 1)
		began := time.Now()
		go func() { committed <- InTxAndRelease(ctx, d.db, lock, func(*sql.Tx) error { return nil }) }()
		eventually(t, "the server is silent", func() (deaf bool) {
			w.set(func(w *wire) { deaf = w.deaf })
			return deaf
		})
		cancel()
		if err := <-committed; err != nil {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if _, owner, _ := b.peek(t, "k"); owner != "" {
			t.Error("the lease was not released")
		}
		w.cutAll()
		w.set(func(w *wire) { w.deaf, w.deafAt = false, "" })
	})
}
