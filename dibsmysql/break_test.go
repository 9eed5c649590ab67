package dibsmysql

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// TestB15_AbandonedBreak: a break whose caller has given up, as a stranger had locked the row, does not take effect later.
func TestB15_AbandonedBreak(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		d, operator := b.driver(t, ""), b.driver(t, "")
		owner, token := take(t, d, "k", time.Hour)
		for _, now := range []bool{true, false} {
			unlock := b.lockRow(t, "k")
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			_, err := operator.Break(ctx, dibsdriver.BreakParams{Key: "k", Token: token, Now: now})
			cancel()
			if !errors.Is(err, dibs.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("now %v: %v", now, err)
			}
			ended := time.Now()
			eventually(t, "its statement has ended", func() bool {
				return b.number(t, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = ? AND info LIKE 'UPDATE%dibs_leases%is_open = 0%'", b.database) == 0
			})
			if took := time.Since(ended); took > 5*time.Second { // a second, and what a busy machine adds; by itself it would be 50
				t.Errorf("now %v: its statement ended after %s", now, took)
			}
			unlock()
			renewed(t, d, dibsdriver.Renewed, "k", owner, time.Hour)
		}
	})
}
