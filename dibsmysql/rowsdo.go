package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-go/dibs"
)

// RowOption changes the terms of one call of [Rows.Do].
type RowOption func(*rowOptions)

type rowOptions struct {
	wait  time.Duration
	waits bool
}

// MaxWait bounds the wait for a row, and for the connection that it takes, to the 100 ms; the error is then dibs.ErrBusy. 0 is one attempt. Without it
// only the context bounds the wait. TryDo ignores it. A negative wait is an error.
func MaxWait(d time.Duration) RowOption {
	return func(o *rowOptions) { o.wait, o.waits = d, true }
}

// Do begins a transaction, locks the row of this name, runs fn, and commits; nobody else has the row until then. fn works on tx, which is READ COMMITTED
// and whose first statement was the lock, so that it sees what the one before it has committed. fn neither commits nor rolls back, nor runs what would end the transaction (DDL,
// BEGIN, LOCK TABLES, SET autocommit), and closes what it has opened on tx. Its context is the caller's, and ends with dibs.ErrLost as its cause when the server has ended the
// transaction; that is noticed within a second, if the server can be reached.
//
// nil: it is committed. dibs.ErrOutcomeUnknown: it may be committed, wholly or in part, and only the data can tell. Any other error: nothing is committed; Do has rolled back, because
//   - fn returned an error, which is the one that Do returns, or panicked (the panic goes on);
//   - the context ended, before or after fn: its error, joined with a *dibs.BusyError if that was during the wait;
//   - MaxWait was over: dibs.ErrBusy, a *dibs.BusyError;
//   - the transaction was lost with its connection: dibs.ErrLost;
//   - the server refused to commit, which happens in clusters and on servers that became read-only: dibs.ErrUnavailable, dibs.ErrReadOnly;
//   - it did not come to fn: dibs.ErrUnavailable, [ErrNotRegistered], dibs.ErrInvalidKey, or dibs.ErrHeld, if the context is that of a work that has this row.
//
// Do never runs fn again by itself: after a deadlock in fn (error 1213, or 1020 on MariaDB) it is for the caller to call Do once more.
func (r *Rows) Do(ctx context.Context, name string, fn func(ctx context.Context, tx *sql.Tx) error, opts ...RowOption) error {
	var o rowOptions
	for _, opt := range opts {
		opt(&o)
	}
	if o.waits && o.wait < 0 {
		return fmt.Errorf("dibs: %s: MaxWait is %s: it must be 0 (one attempt) or more; leave it out to wait as long as the context", r.d.name(), o.wait)
	}
	h, err := r.acquire(ctx, name, o)
	if err != nil {
		return err
	}
	return h.run(ctx, fn)
}

// TryDo is [Rows.Do] without a wait: if the row is locked, or others of this process wait for it, it returns (false, nil). ran says whether fn ran: an
// error that is dibs.ErrBusy with ran true is fn's own. If all of [RowsConfig].MaxConns are in use, nobody knows whether the row is locked: dibs.ErrUnavailable.
func (r *Rows) TryDo(ctx context.Context, name string, fn func(ctx context.Context, tx *sql.Tx) error, opts ...RowOption) (ran bool, err error) {
	h, err := r.acquire(ctx, name, rowOptions{waits: true})
	if err != nil {
		if errors.Is(err, dibs.ErrBusy) && ctx.Err() == nil {
			return false, nil
		}
		return false, err
	}
	return true, h.run(ctx, fn)
}

// acquire waits for the row. Whoever gets a hold runs it, or gives it up.
func (r *Rows) acquire(ctx context.Context, name string, o rowOptions) (*rowHold, error) {
	if ctx.Err() != nil {
		return nil, rowContextError(ctx)
	}
	nested := false
	for outer := rowsHeldIn(ctx); outer != nil; outer = outer.outer {
		if outer.hold.over() || outer.hold.r.d.db != r.d.db {
			continue
		}
		if outer.hold.r.table == r.table && outer.hold.name == name {
			return nil, fmt.Errorf("dibs: %s: %w: row lock %q; to wait for it would be a deadlock: use the transaction that is there", r.d.name(), dibs.ErrHeld, name)
		}
		nested = true
	}
	id, err := r.id(ctx, name)
	if err != nil {
		if ctx.Err() != nil {
			return nil, errors.Join(rowContextError(ctx), err)
		}
		return nil, err
	}
	w := &rowWaiter{answer: make(chan rowAnswer, 1), once: o.waits && o.wait == 0, nested: nested, began: time.Now()}
	l, err := r.join(name, id, w)
	if err != nil {
		return nil, err
	}
	var over <-chan time.Time
	if o.waits && !w.once {
		t := time.NewTimer(o.wait)
		defer t.Stop()
		over = t.C
	}
	select {
	case a := <-w.answer:
		return a.accept(ctx)
	case <-over:
	case <-ctx.Done():
	}
	if !l.leave(w) { // the answer was quicker
		a := <-w.answer
		return a.accept(ctx)
	}
	err = l.refusal(w)
	if ctx.Err() != nil {
		err = errors.Join(rowContextError(ctx), err)
	}
	return nil, err
}

type rowAnswer struct {
	hold *rowHold
	err  error
}

// accept gives a row back that came too late.
func (a rowAnswer) accept(ctx context.Context) (*rowHold, error) {
	if a.err != nil || ctx.Err() == nil {
		return a.hold, a.err
	}
	a.hold.giveUp()
	return nil, rowContextError(ctx)
}

func rowContextError(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, err) {
		return errors.Join(err, cause)
	}
	return err
}

// heldRow is in the context of a work: the rows that it has.
type heldRow struct {
	hold  *rowHold
	outer *heldRow
}

type heldRowKey struct{}

func rowsHeldIn(ctx context.Context) *heldRow {
	h, _ := ctx.Value(heldRowKey{}).(*heldRow)
	return h
}
