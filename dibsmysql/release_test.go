package dibsmysql

import (
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// TestReleaseWithoutAutocommit: a connection of the pool on which the application has left autocommit off releases nothing that anybody else could see, and so is not used.
func TestReleaseWithoutAutocommit(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		for _, keep := range []time.Duration{0, time.Second} {
			db := b.pool(t, "")
			d, other := drive(t, db), b.driver(t, "")
			owner, _ := take(t, d, "k", time.Hour)
			b.must(t, db, "SET SESSION autocommit = 0") // on the one that is idle
			if err := d.Release(within(t), dibsdriver.ReleaseParams{Key: "k", Owner: owner, Keep: keep}); err != nil {
				t.Error(err)
			}
			eventually(t, "others find it free", func() bool {
				r, err := other.Acquire(within(t), params("k", time.Millisecond))
				return err == nil && r.Acquired
			})
			eventually(t, "it is free again", func() bool { _, _, left := b.peek(t, "k"); return left <= 0 })
		}
	})
}
