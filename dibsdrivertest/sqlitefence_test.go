package dibsdrivertest_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdrivertest"
	"github.com/dibs-go/dibs/dibssqlite"
)

// The schemes of URLs: dibssqlite.Open, and dibssqlite.New on the application's own database.
const (
	ownSQLite   = "sqlite"
	usersSQLite = "sqlite-new"
)

// TestSQLiteOfTheUsers: the lock in the application's own database, by its own pool, with both journals.
func TestSQLiteOfTheUsers(t *testing.T) {
	t.Parallel()
	for _, journal := range []string{"WAL", "DELETE"} {
		t.Run(journal, func(t *testing.T) {
			dibsdrivertest.Run(t, dibsdrivertest.Factory{
				Name: "sqlite, " + journal,
				New: func(t testing.TB) dibsdrivertest.Store {
					s := newSQLiteFile(t)
					s.scheme = usersSQLite
					s.exec(t, "PRAGMA journal_mode = "+journal)
					return s
				},
				Cases: func(name string) bool {
					return strings.HasPrefix(name, "S7/") && (journal == "WAL" || !transfers(name))
				},
			})
		})
	}
}

// transfers are the cases that take long: one kind of file is enough for them.
func transfers(name string) bool { return strings.HasPrefix(name, "S7/B02/transfers") }

// sqliteDriver goes with a pool of the application's on the same file.
type sqliteDriver struct {
	*dibssqlite.Driver
	db *sql.DB
}

func (d *sqliteDriver) Close() error { return errors.Join(d.Driver.Close(), d.db.Close()) }

func (d *sqliteDriver) Fencing() dibsdrivertest.Fencing {
	return dibsdrivertest.Fencing{
		Driver: d.Driver, DB: d.db, InTx: dibssqlite.InTx, InTxAndRelease: dibssqlite.InTxAndRelease,
		Fence: func(ctx context.Context, tx dibsdrivertest.FenceTx, lock *dibs.Lock) error {
			return dibssqlite.Fence(ctx, tx, lock)
		},
		Guard: func(ctx context.Context, r dibsdrivertest.GuardedRow, token int64, set string, args ...any) error {
			return dibssqlite.Guard{Table: r.Table, Where: r.Where, Args: r.Args}.Update(ctx, d.db, token, set, args...)
		},
	}
}

func (s *sqlite) Fences(testing.TB) dibsdrivertest.Fences {
	return dibsdrivertest.Fences{
		Admin: s.db(), Place: s.path, Begin: "BEGIN IMMEDIATE", Autocommit: "no transaction", OneWriter: true,
		Lose: map[string]string{
			"expired and taken over": "UPDATE dibs_leases SET owner = 'x', token = token + 5000 WHERE lock_key = ?",
			"taken over, same token": "UPDATE dibs_leases SET owner = 'x' WHERE lock_key = ?",
			"freed":                  "UPDATE dibs_leases SET owner = NULL, expires_ms = 0 WHERE lock_key = ?",
			"expired":                "UPDATE dibs_leases SET expires_ms = CAST(round(unixepoch('subsec') * 1000) AS INTEGER) WHERE lock_key = ?",
			"broken":                 "UPDATE dibs_leases SET open = 0 WHERE lock_key = ?",
			"another token":          "UPDATE dibs_leases SET token = token + 1024 WHERE lock_key = ?",
			"an older token":         "UPDATE dibs_leases SET token = token - 1024 WHERE lock_key = ?",
			"gone":                   "DELETE FROM dibs_leases WHERE lock_key = ?",
		},
	}
}
