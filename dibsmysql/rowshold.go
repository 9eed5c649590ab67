package dibsmysql

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/dibs-go/dibs"
)

// rowHold is a transaction that has its row.
type rowHold struct {
	r        *Rows
	line     *rowLine
	name     string
	marker   string // of its locking read, and the name of its savepoint
	conn     *sql.Conn
	tx       *sql.Tx
	endTx    context.CancelFunc
	thread   int64  // its session in the server
	instance string // which server
	client   string // its address, as the watch has seen it first; the watch alone uses this
	since    time.Time
	done     chan struct{} // closed when the row is free again, and the connection back

	mu      sync.Mutex
	ended   bool
	watched bool
	lost    bool
	cancel  context.CancelCauseFunc // of the work's context
}

// over tells whether the work has ended.
func (h *rowHold) over() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended
}

// run runs the work, and ends the transaction however that ends.
func (h *rowHold) run(ctx context.Context, fn func(context.Context, *sql.Tx) error) (err error) {
	work, cancel := context.WithCancelCause(context.WithValue(ctx, heldRowKey{}, &heldRow{hold: h, outer: rowsHeldIn(ctx)}))
	h.cancel = cancel
	defer cancel(dibs.ErrReleased)
	soon := time.AfterFunc(rowWatchEvery, h.watch)
	returned := false
	defer func() {
		if !returned { // a panic, or the goroutine ends
			soon.Stop()
			h.giveUp()
		}
	}()
	err = fn(work, h.tx)
	returned = true
	soon.Stop()
	return h.finish(ctx, err)
}

// watch has the session looked after, from when the work has taken a while.
func (h *rowHold) watch() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.watched = true
		h.r.watch.enter(h)
	}
}

// lose tells the work that the server has ended its session.
func (h *rowHold) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.lost = true
		h.cancel(dibs.ErrLost)
	}
}

// end is the end of the work, and tells whether the transaction is known to be lost.
func (h *rowHold) end() (lost bool) {
	h.mu.Lock()
	h.ended = true
	watched, lost := h.watched, h.lost
	h.mu.Unlock()
	if watched {
		h.r.watch.forget(h)
	}
	return lost
}

// giveUp rolls back, when the work has not returned.
func (h *rowHold) giveUp() {
	h.end()
	if h.cancel != nil { // the work had the connection, which may be dead by now
		_ = h.intact(context.Background(), rowRollbackWait)
	}
	h.rollback(h.cancel == nil)
}

// rowRollbackWait is how long a server may take for what is done when all is over. What takes longer goes on by itself.
const rowRollbackWait = time.Second

// rollback ends the transaction. A session in which it had ended before is not used again: LOCK TABLES, say, outlasts it.
func (h *rowHold) rollback(reuse bool) {
	rowsAtMost(rowRollbackWait, func() {
		err := h.tx.Rollback()
		h.put(!reuse || err != nil || !restoreRowSession(h.conn))
	})
}

// put gives the connection back; or closes it, and sees to it that the server ends the session at once as well.
func (h *rowHold) put(broken bool) {
	h.endTx()
	session{conn: h.conn}.put(broken)
	if broken {
		h.r.watch.end(h)
	}
	<-h.r.slots
	h.line.freed(h)
	close(h.done)
}

// restoreRowSession leaves the session as it was found; false if that is not certain.
func restoreRowSession(conn *sql.Conn) bool {
	ctx, cancel := context.WithTimeout(context.Background(), rowRollbackWait)
	defer cancel()
	_, err := conn.ExecContext(ctx, rowRestoreSQL)
	return err == nil
}

// rowsAtMost waits for f, but not longer than limit.
func rowsAtMost(limit time.Duration, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}
