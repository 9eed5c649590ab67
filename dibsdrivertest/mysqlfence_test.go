package dibsdrivertest_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdrivertest"
	"github.com/dibs-go/dibs/dibsmysql"
)

func (m *mysqlDB) Fences(testing.TB) dibsdrivertest.Fences {
	return dibsdrivertest.Fences{
		Admin: m.admin, Place: m.name, Secret: m.server.App.Password, Begin: "START TRANSACTION", Autocommit: "no transaction under way",
		Levels: []sql.IsolationLevel{sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable},
		Lose: map[string]string{
			"expired and taken over": "UPDATE dibs_leases SET owner = 'x', fence = fence + 5000 WHERE lock_key = ?",
			"taken over, same token": "UPDATE dibs_leases SET owner = 'x' WHERE lock_key = ?",
			"freed":                  "UPDATE dibs_leases SET owner = NULL, expires = '1970-01-01' WHERE lock_key = ?",
			"expired":                "UPDATE dibs_leases SET expires = UTC_TIMESTAMP(6) WHERE lock_key = ?",
			"broken":                 "UPDATE dibs_leases SET is_open = 0 WHERE lock_key = ?",
			"another token":          "UPDATE dibs_leases SET fence = fence + 1024 WHERE lock_key = ?",
			"an older token":         "UPDATE dibs_leases SET fence = fence - 1024 WHERE lock_key = ?",
			"gone":                   "DELETE FROM dibs_leases WHERE lock_key = ?",
		},
	}
}

func (p *poolDriver) Fencing() dibsdrivertest.Fencing {
	return dibsdrivertest.Fencing{
		Driver: p.Driver, DB: p.db, InTx: dibsmysql.InTx, InTxAndRelease: dibsmysql.InTxAndRelease,
		Fence: func(ctx context.Context, tx dibsdrivertest.FenceTx, lock *dibs.Lock) error {
			return dibsmysql.Fence(ctx, tx, lock)
		},
		Guard: func(ctx context.Context, r dibsdrivertest.GuardedRow, token int64, set string, args ...any) error {
			return dibsmysql.Guard{Table: r.Table, Where: r.Where, Args: r.Args}.Update(ctx, p.db, token, set, args...)
		},
	}
}
