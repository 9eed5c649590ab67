package dibsmysql

import (
	"context"
	"testing"
	"time"
)

// TestRowsServerIsBackAtOnce: the server counts its time in whole seconds, so a hold may look younger than a server that has lost it; that it was away tells. Another
// session may have the hold's number by then.
func TestRowsServerIsBackAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		r := b.rows(t, "")
		conn, err := r.d.db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		var thread int64
		if err := conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&thread); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			since, away time.Duration // after the moment at which the server says that it began
			lost        bool
		}{
			"away since the hold began":     {300 * time.Millisecond, 500 * time.Millisecond, true},
			"away only before it":           {300 * time.Millisecond, 100 * time.Millisecond, false},
			"begun long after the start":    {1100 * time.Millisecond, 1200 * time.Millisecond, false},
			"begun before the server began": {-time.Millisecond, -time.Second, true},
		} {
			began := time.Now().Add(-time.Minute)
			h := &rowHold{r: r, instance: "here", thread: thread, since: began.Add(c.since), cancel: func(error) {}}
			w := &rowWatch{r: r, where: "here", began: began, away: began.Add(c.away), holds: map[*rowHold]struct{}{h: {}}}
			if err := w.look(context.WithoutCancel(t.Context()), conn); err != nil {
				t.Fatal(err)
			}
			if h.lost != c.lost {
				t.Errorf("%s: lost %v", name, h.lost)
			}
		}
	})
}
