package dibsmysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/go-sql-driver/mysql"
)

const (
	// rowCommitWait is how long a commit may take before its outcome is called unknown. The server goes on with it.
	rowCommitWait = 30 * time.Second
	// rowCommitGrace is how long a commit under way may still take after the context has ended.
	rowCommitGrace = time.Second
)

// finish ends the transaction after the work has returned: it commits, or it rolls back and says why.
func (h *rowHold) finish(ctx context.Context, work error) error {
	lost := h.end()
	if work == nil && ctx.Err() != nil {
		work = h.notCommitted("the context ended before the commit", rowContextError(ctx))
	}
	if work != nil {
		// A part may be committed all the same, if the transaction has ended inside the work; a deadlock's error says that it was rolled back.
		err := h.intact(context.Background(), rowRollbackWait)
		h.rollback(err == nil)
		switch {
		case h.ended1305(err) && !rolledBack(work):
			return errors.Join(work, h.endedInside(err))
		case lost:
			return errors.Join(work, h.notCommitted("the server has ended the transaction", dibs.ErrLost))
		}
		return work
	}
	if err := h.intact(ctx, rowCommitWait); err != nil {
		h.rollback(false)
		return h.refuse(ctx, err)
	}
	return h.commit(ctx)
}

// intact tells whether this still is the transaction that began with the lock. Whatever ends one (a second BEGIN, DDL, LOCK TABLES, COMMIT, a deadlock, the loss of the
// connection) forgets its savepoints, on both servers; going back to one of the work's own keeps the lock and this savepoint, which is older. So if the savepoint is there,
// the row was locked all the time. It also finds a broken connection while it is still certain that nothing is committed. One that does not answer in time is closed.
func (h *rowHold) intact(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := h.tx.ExecContext(ctx, "RELEASE SAVEPOINT "+h.marker)
	return err
}

// ended1305: the savepoint is gone, or fn has called Commit or Rollback.
func (h *rowHold) ended1305(err error) bool {
	return code(err) == 1305 || errors.Is(err, sql.ErrTxDone)
}

// rolledBack tells whether err says that the server has rolled the transaction back.
func rolledBack(err error) bool {
	switch code(err) {
	case 1213, 1020, 1205:
		return true
	}
	return false
}

// refuse is the error of a transaction that was found broken before its commit.
func (h *rowHold) refuse(ctx context.Context, err error) error {
	switch {
	case h.ended1305(err):
		return h.endedInside(err)
	case ctx.Err() != nil:
		return h.notCommitted("the context ended before the commit", rowContextError(ctx))
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, mysql.ErrBusyBuffer): // the client library closes a connection that is used beside open rows
		return h.notCommitted("the connection broke, and the lock went with it; or the work has left a *sql.Rows open on its transaction, and is to close it", err,
			dibs.ErrLost, dibsdriver.ErrUnavailable)
	case code(err) == 0, code(err) == 4031:
		return h.notCommitted("the connection broke, and the lock went with it", err, dibs.ErrLost, dibsdriver.ErrUnavailable)
	}
	return h.refused(err)
}

// commit sends COMMIT. The client library cannot be told to stop waiting for the answer, so somebody else waits, and keeps the connection until it comes.
func (h *rowHold) commit(ctx context.Context) error {
	answer := make(chan error, 1)
	go func() {
		err := h.tx.Commit()
		answer <- err
		h.put(err != nil || !restoreRowSession(h.conn))
	}()
	limit := time.NewTimer(rowCommitWait)
	defer limit.Stop()
	ended := ctx.Done()
	for {
		select {
		case err := <-answer:
			if err == nil || refusedCommit(err) {
				rowsAtMost(rowRollbackWait, func() { <-h.done })
			}
			return h.outcome(err)
		case <-ended:
			ended = nil
			limit.Reset(rowCommitGrace)
		case <-limit.C:
			return h.outcome(errors.Join(errors.New("there is no answer yet"), ctx.Err()))
		}
	}
}

func (h *rowHold) outcome(err error) error {
	switch {
	case err == nil:
		return nil
	case refusedCommit(err):
		return h.refused(err)
	}
	return named(fmt.Errorf("dibs: %s: row lock %q: the commit was sent, and whether it took place is not known: look at the data, or write them in a way that may be repeated: %w",
		h.r.d.name(), h.name, err), dibs.ErrOutcomeUnknown, dibsdriver.ErrUnavailable)
}

// refusedCommit tells whether err is known to mean that nothing is committed: a lost certification on Galera and in Group Replication, a server that takes
// no writes, a session that had ended before, or a COMMIT that was not sent. All else may have come after the commit.
func refusedCommit(err error) bool {
	switch code(err) {
	case 1213, 1020, 1205, 1047, 1290, 1792, 1836, 3101, 4031:
		return true
	}
	return errors.Is(err, driver.ErrBadConn)
}

func (h *rowHold) notCommitted(why string, err error, names ...error) error {
	return named(fmt.Errorf("dibs: %s: row lock %q: not committed: %s: %w", h.r.d.name(), h.name, why, err), names...)
}

// refused: the server has refused to commit.
func (h *rowHold) refused(err error) error {
	switch code(err) {
	case 1213, 1020, 1205, 3101:
		return h.notCommitted("another transaction was in the way (on another node, if this is a cluster); call Do again", err, unavailableNames...)
	}
	what, names := h.r.d.explain(err)
	return h.notCommitted(what, err, names...)
}

func (h *rowHold) endedInside(err error) error {
	return named(fmt.Errorf("dibs: %s: row lock %q: the transaction ended inside the work, and the lock with it: DDL, BEGIN, LOCK TABLES, SET autocommit or Commit commit what "+
		"was done before them, a deadlock or Rollback undoes it; what was done after that is rolled back. Look at the data, and take such statements out of the work: %w",
		h.r.d.name(), h.name, err), dibs.ErrOutcomeUnknown, dibs.ErrLost)
}
