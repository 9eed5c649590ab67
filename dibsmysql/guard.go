package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// Guard is a row of a table of yours that refuses writes of those whose lock has passed on, by remembering the highest fencing token that has written
// to it. It is for writes that [InTx] and [Fence] cannot fence: in a database on another server than the lock's. The table needs a column for the
// token:
//
//	ALTER TABLE reports ADD COLUMN fence BIGINT NOT NULL DEFAULT 0
//
// A guard only sees what is written to its row. So a holder that reads before it writes has to claim the row first, by an Update that sets nothing:
// from then on no earlier holder changes what it is about to read.
//
// Guards hold no state, and may be used concurrently.
type Guard struct {
	// Table and Where are SQL, and must never be made of input. Where picks one row, by its primary key or a unique one, with a question mark for
	// each of Args.
	Table, Where string
	// Args are the arguments of Where.
	Args []any
	// Column is the column for the token. Default "fence".
	Column string
}

// Execer is where a guarded update runs: a *sql.DB, or a transaction.
type Execer interface {
	// ExecContext runs a statement.
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	// QueryRowContext returns one row.
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Update changes the row and writes the token into it, unless it has a higher one. set is the SQL between SET and WHERE, with a question mark for
// each of args; empty, only the token is written. It is one statement (and a second one to tell why it did nothing).
//
// It returns nil if the row now has the token, whether or not its other values were different before, and whatever clientFoundRows says;
// [dibs.ErrLost] if the row has a higher token, so that a later holder has written; [sql.ErrNoRows] if there is no such row; [dibs.ErrOutcomeUnknown]
// if the connection broke before the answer came; otherwise the server's error, and nothing was changed.
func (g Guard) Update(ctx context.Context, db Execer, token int64, set string, args ...any) error {
	if token <= 0 || token > dibsdriver.MaxToken {
		return refused("dibs: mysql: guard of %s: %d is no fencing token", g.Table, token)
	}
	column := g.Column
	if column == "" {
		column = "fence"
	}
	if set != "" {
		set += ", "
	}
	// LAST_INSERT_ID tells that the row was found; "affected rows" would not, where the values are the same as before.
	update := fmt.Sprintf("UPDATE %s SET %s%s = LAST_INSERT_ID(?) WHERE (%s) AND COALESCE(%s, 0) <= ?", g.Table, set, column, g.Where, column)
	look := fmt.Sprintf("SELECT COALESCE(%s, 0) FROM %s WHERE (%s) FOR UPDATE", column, g.Table, g.Where) // as it is now, also under an old snapshot
	all := append(append(append(append([]any{}, args...), token), g.Args...), token)
	for range attempts {
		res, err := db.ExecContext(ctx, update, all...)
		if err != nil {
			return g.failed(token, err)
		}
		id, err := res.LastInsertId()
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if err != nil || id == token || n > 0 {
			return err
		}
		var has int64
		switch err := db.QueryRowContext(ctx, look, g.Args...).Scan(&has); {
		case errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("dibs: mysql: guard of %s, token %d: there is no such row: %w", g.Table, token, err)
		case err != nil:
			return fmt.Errorf("dibs: mysql: guard of %s, token %d: nothing was changed, and why cannot be read: %w", g.Table, token, err)
		case has > token:
			return named(fmt.Errorf("dibs: mysql: guard of %s, token %d: refused, as token %d has written since: the lock has passed on",
				g.Table, token, has), dibs.ErrLost)
		case has == token:
			return nil // triggers of the table have taken the place of the answer
		}
		// The row has come between the two statements.
	}
	return named(fmt.Errorf("dibs: mysql: guard of %s, token %d: the row appears and disappears", g.Table, token), dibs.ErrUnavailable)
}

func (g Guard) failed(token int64, err error) error {
	if fate(err) == dibsdriver.FateUnknown && !errors.Is(err, sql.ErrTxDone) {
		return named(fmt.Errorf("dibs: mysql: guard of %s, token %d: the update was sent and its answer was lost; it may have been made or not: %w",
			g.Table, token, err), dibs.ErrOutcomeUnknown)
	}
	return fmt.Errorf("dibs: mysql: guard of %s, token %d: nothing was changed: %w", g.Table, token, err)
}
