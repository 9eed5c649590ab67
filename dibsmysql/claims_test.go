package dibsmysql

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// TestManyBatonsAreGivenAwayTogether: the keeper's connection, on which they are, is needed for renewals, too.
func TestManyBatonsAreGivenAwayTogether(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		const n = 50
		w := newWire(t, b.Addr)
		d := b.through(t, w, "")
		d.db.SetMaxIdleConns(n) // so that none is closed, which is a command as well
		owners := make([]string, n)
		for i := range owners {
			owners[i], _ = take(t, d, fmt.Sprint("k", i), time.Minute)
		}
		for i := range owners {
			eventually(t, "the holder has the baton", func() bool { return !d.claiming(fmt.Sprint("k", i)) })
		}
		conn := <-d.keeper.slot // a renewal under way
		var all sync.WaitGroup
		for i, owner := range owners {
			all.Go(func() { release(t, d, fmt.Sprint("k", i), owner) })
		}
		all.Wait()
		before := w.count()
		d.keeper.put(conn, false)
		for i := range owners {
			eventually(t, "the baton is free", func() bool { return b.batonFree(t, d, fmt.Sprint("k", i)) })
		}
		if sent := w.count() - before; sent > n/4 {
			t.Errorf("%d statements for %d batons", sent, n)
		}
	})
}
