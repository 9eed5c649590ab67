package dibssqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/internal/fencing"
	sqlite3 "modernc.org/sqlite/lib"
)

// InTx runs fn in a transaction on db that is fenced by the lock: it commits while the lease is this lock's, or not at all. It begins the
// transaction, and takes the file's write lock with its first statement, whatever _txlock says, waiting for it until ctx ends; if fn returns an error
// or panics, rolls it back; otherwise fences it, as [Fence] does, and commits. From the fence to the end of the commit a release of the lock, or its
// handoff to the next in this process, waits. fn must not end the transaction.
//
// While fn runs nobody else writes to the file, and no lease of the file is renewed: do what takes time before it. For the same reason a second InTx
// on the file must not be called within fn: it would wait for the first one until its context ends.
//
// Errors: fn's own; Fence's; [dibs.ErrUnavailable] if the transaction could not be begun, or not be committed. After all of these the transaction is
// rolled back, and the error of a context that has ended is there as well. [dibs.ErrOutcomeUnknown] is the exception: the disk failed during the
// commit, or fn has ended the transaction itself. Look for what the transaction wrote before you do it again, most easily by a row that carries the fencing token (see the example).
//
// It may be called concurrently.
func InTx(ctx context.Context, db *sql.DB, lock *dibs.Lock, fn func(tx *sql.Tx) error) error {
	return inTx(ctx, db, lock, fn, false)
}

// InTxAndRelease is [InTx], and its commit releases the lock too: there is no moment in which the work is done and the lock still taken, nor the
// other way round. Where the lock has a min hold, the key stays taken for what is left of it. After that the lock is released: its Err is
// [dibs.ErrReleased], and the deferred call of its Release, which has nothing left to do, returns nil.
//
// If the transaction was not committed, the lock is still held. A lock that is held several times by its context (dibs.Reenter) is refused after fn,
// and the transaction rolled back.
func InTxAndRelease(ctx context.Context, db *sql.DB, lock *dibs.Lock, fn func(tx *sql.Tx) error) error {
	return inTx(ctx, db, lock, fn, true)
}

func inTx(ctx context.Context, db *sql.DB, lock *dibs.Lock, fn func(tx *sql.Tx) error, release bool) error {
	l, d, err := pin(lock) // what cannot end well is not begun
	if err != nil {
		return err
	}
	l.Unpin()
	if db == nil {
		return refused("dibs: %s: InTx was given no database (nil *sql.DB)", d.name())
	}
	tx, err := d.begin(ctx, db, l)
	if err != nil {
		return err
	}
	outcome := fencing.NotCommitted
	end := func() {}
	defer func() {
		_ = tx.Rollback() // after a commit it does nothing
		end()
	}()
	if err := fn(tx); err != nil {
		return withCause(ctx, err)
	}
	if l, _, err = pin(lock); err != nil {
		return withCause(ctx, err)
	}
	frees := false
	end = func() {
		if frees {
			l.Freed(outcome)
		}
		if outcome == fencing.Unknown {
			l.Unseen()
		}
		l.Unpin()
	}
	if _, err := tx.ExecContext(ctx, "RELEASE "+marker); err != nil && (errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil || strings.Contains(err.Error(), "no such savepoint")) {
		return named(fmt.Errorf("dibs: %s: key %q, token %d: the transaction was ended inside the work (by COMMIT, ROLLBACK or ON CONFLICT ROLLBACK), and what came after that stands "+
			"without the lock: look for what is there; the lock is still held: %w", d.name(), l.Key, l.Token, withCause(ctx, err)), dibs.ErrOutcomeUnknown)
	}
	if err := d.fence(ctx, tx, l, false); err != nil {
		return withCause(ctx, err)
	}
	if release {
		if err := l.Freeing(); err != nil {
			return err
		}
		frees = true
		var one int
		if err := tx.QueryRowContext(ctx, d.q.release, []byte(l.Key), l.Owner, millis(l.Keep())).Scan(&one); err != nil {
			return d.fail(fmt.Sprintf("release the lock of %q in a transaction", l.Key), withCause(ctx, err))
		}
	}
	err = tx.Commit()
	outcome = outcomeOfCommit(err)
	switch outcome {
	case fencing.Committed:
		return nil
	case fencing.NotCommitted:
		return d.fail(fmt.Sprintf("commit the transaction fenced by the lock of %q, which was not committed", l.Key), withCause(ctx, err))
	}
	return named(fmt.Errorf("dibs: %s: key %q, token %d: the disk failed during the commit: the transaction may be committed or not; look for what it "+
		"wrote before doing it again: %w", d.name(), l.Key, l.Token, withCause(ctx, err)), dibs.ErrOutcomeUnknown)
}

// marker is a savepoint from the beginning to the fence: it is gone if the transaction was ended under way, also if another was begun after that.
const marker = "dibs_intx"

// begin returns a transaction that has the write lock, as BEGIN IMMEDIATE would: database/sql has no word for that, but a write as the first
// statement does the same.
func (d *Driver) begin(ctx context.Context, db *sql.DB, l fencing.Lease) (tx *sql.Tx, err error) {
	err = d.waitForLock(ctx, nil, func() error {
		if tx, err = db.BeginTx(ctx, nil); err != nil {
			return err
		}
		err := d.fence(ctx, tx, l, false)
		if err == nil {
			_, err = tx.ExecContext(ctx, "SAVEPOINT "+marker)
		}
		if err != nil {
			_ = tx.Rollback()
		}
		return err
	})
	if err != nil && !errors.Is(err, dibs.ErrLost) {
		err = d.fail("begin a transaction", withCause(ctx, err))
	}
	return tx, err
}

// outcomeOfCommit: SQLite works in this process and knows what it did, unless the disk fails at the very end.
func outcomeOfCommit(err error) fencing.Outcome {
	switch {
	case err == nil:
		return fencing.Committed
	case sqliteCode(err) == sqlite3.SQLITE_IOERR && !errors.Is(err, sql.ErrTxDone):
		return fencing.Unknown
	}
	return fencing.NotCommitted
}
