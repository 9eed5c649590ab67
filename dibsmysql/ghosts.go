package dibsmysql

import (
	"context"
	"crypto/rand"
	"database/sql"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ghosts are statements whose client has gone: the end of a context closes the connection, but in the server the statement waits on for its
// row, and then does its work. They are found in the server by the owner that they name, and ended.
type ghosts struct {
	mu      sync.Mutex
	markers map[string]time.Time // until when to look for them
	hunting bool
}

// newMark is what one statement can be found by that names no owner of its own.
func newMark() string { return literal(rand.Text()) }

// A statement may arrive at the server after its client has gone, so one look is not enough.
const (
	huntFor   = 800 * time.Millisecond
	huntPause = 100 * time.Millisecond
)

func (g *ghosts) abandon(d *Driver, marker string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.markers == nil {
		g.markers = make(map[string]time.Time)
	}
	g.markers[marker] = time.Now().Add(huntFor)
	if !g.hunting {
		g.hunting = d.inBackground(func(ctx context.Context) { g.hunt(ctx, d) })
	}
}

// wanted returns what to look for.
func (g *ghosts) wanted() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(g.markers, func(_ string, until time.Time) bool { return now.After(until) })
	g.hunting = len(g.markers) > 0
	return slices.Collect(maps.Keys(g.markers))
}

// hunt goes on until there is nothing to look for.
func (g *ghosts) hunt(ctx context.Context, d *Driver) {
	for ctx.Err() == nil && g.look(ctx, d, huntFor) {
		t := time.NewTimer(huntPause)
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

// look goes through the server once; false if there is nothing to look for.
func (g *ghosts) look(ctx context.Context, d *Driver, limit time.Duration) bool {
	wanted := g.wanted()
	if len(wanted) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// A server that is gone has no threads, and one that hangs will end its statements or not: nothing here is worth reporting.
	_ = d.send(ctx, request{doing: "look for abandoned statements", take: d.take, reads: true}, func(conn *sql.Conn) error {
		return killAll(ctx, conn, wanted)
	})
	return true
}

// killAll ends the statements that contain one of the markers. A user may see and end what is its own.
func killAll(ctx context.Context, conn *sql.Conn, markers []string) error {
	var found []int64
	err := eachRow(ctx, conn, "SHOW FULL PROCESSLIST", func(rows *sql.Rows) error {
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		values, into := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		statement := string(values[slices.Index(columns, "Info")])
		if !slices.ContainsFunc(markers, func(m string) bool { return strings.Contains(statement, m) }) {
			return nil
		}
		id, err := strconv.ParseInt(string(values[0]), 10, 64)
		found = append(found, id)
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range found {
		if _, err := conn.ExecContext(ctx, "KILL QUERY "+number(id)); err != nil && code(err) == 0 {
			return err
		}
	}
	return nil
}
