package dibssqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// Guard is a row of a table of yours that refuses writes of those whose lock has passed on, by remembering the highest fencing token that has written
// to it. It is for writes that [InTx] and [Fence] cannot fence: in another file than the lock's. The table needs a column for the token:
//
//	ALTER TABLE reports ADD COLUMN fence INTEGER NOT NULL DEFAULT 0
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

// Update changes the row and writes the token into it, unless it has a higher one. set is the SQL between SET and WHERE, with a question mark for
// each of args; empty, only the token is written. db is a *sql.DB, or a transaction. It is one statement (and a second one to tell why it did
// nothing).
//
// It returns nil if the row now has the token, whether or not its other values were different before; [dibs.ErrLost] if the row has a higher token,
// so that a later holder has written; [sql.ErrNoRows] if there is no such row; otherwise SQLite's error, and nothing was changed.
func (g Guard) Update(ctx context.Context, db Tx, token int64, set string, args ...any) error {
	if token <= 0 || token > dibsdriver.MaxToken {
		return refused("dibs: sqlite: guard of %s: %d is no fencing token", g.Table, token)
	}
	column := g.Column
	if column == "" {
		column = "fence"
	}
	if set != "" {
		set += ", "
	}
	update := fmt.Sprintf("UPDATE %s SET %s%s = ? WHERE (%s) AND coalesce(%s, 0) <= ? RETURNING 1", g.Table, set, column, g.Where, column)
	all := append(append(append(append([]any{}, args...), token), g.Args...), token)
	var one, has int64
	err := db.QueryRowContext(ctx, update, all...).Scan(&one)
	if err == nil {
		return nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("dibs: sqlite: guard of %s, token %d: nothing was changed: %w", g.Table, token, err)
	}
	err = db.QueryRowContext(ctx, fmt.Sprintf("SELECT coalesce(%s, 0) FROM %s WHERE (%s)", column, g.Table, g.Where), g.Args...).Scan(&has)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("dibs: sqlite: guard of %s, token %d: there is no such row: %w", g.Table, token, err)
	case err != nil:
		return fmt.Errorf("dibs: sqlite: guard of %s, token %d: nothing was changed, and why cannot be read: %w", g.Table, token, err)
	case has > token:
		return named(fmt.Errorf("dibs: sqlite: guard of %s, token %d: refused, as token %d has written since: the lock has passed on",
			g.Table, token, has), dibs.ErrLost)
	}
	return named(fmt.Errorf("dibs: sqlite: guard of %s, token %d: nothing was changed: the row has come since; do it again", g.Table, token),
		dibs.ErrUnavailable)
}
