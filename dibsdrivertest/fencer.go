package dibsdrivertest

import (
	"context"
	"database/sql"
	"testing"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// Fencer is a store with SQL, in which transactions on business data can be fenced by a lock (S7). Its drivers, as [Store] and [Open] return them, are
// each a [FencingDriver]; it has a URL, since helper processes fence transactions as well.
type Fencer interface {
	// Fences makes ready what the cases need, and says what they have to know of the store.
	Fences(t testing.TB) Fences
}

// Fences is what the cases of fenced transactions have to know of a store. Their own statements are SQL that all stores understand.
type Fences struct {
	// Admin may make tables beside those of the locks, and change those of the locks; the application needs fewer rights.
	Admin *sql.DB
	// Place is how errors name the store: its database, its file.
	Place string
	// Secret must not be in any error; "" if there is none.
	Secret string
	// Begin is the statement by which a transaction that can be fenced begins on a connection.
	Begin string
	// Autocommit is what the refusal of a connection says on which no transaction was begun.
	Autocommit string
	// Levels are the isolation levels at which a transaction can be fenced; nil for the store's default alone.
	Levels []sql.IsolationLevel
	// OneWriter tells that whoever has written in a transaction keeps all others from writing until it ends, renewals and releases of leases as well.
	OneWriter bool
	// Lose are statements with the key ([]byte) as their argument, one for each of [Losses].
	Lose map[string]string
}

// Losses are what may have become of a lease that its holder still believes in.
var Losses = []string{
	"expired and taken over", // by another owner, with a token that is higher by 5000
	"taken over, same token", // by another owner, and nothing else has changed
	"freed",
	"expired",
	"broken",         // it may not be renewed any more
	"another token",  // higher by TokenStep
	"an older token", // lower by TokenStep
	"gone",           // with its row
}

// FencingDriver is a driver by whose locks transactions can be fenced.
type FencingDriver interface {
	dibsdriver.Driver
	// Fencing returns the same on each call; it ends with the driver.
	Fencing() Fencing
}

// Fencing is how one process of an application fences its transactions.
type Fencing struct {
	// Driver is the driver itself with nothing around it: the functions know it by its type.
	Driver dibsdriver.Driver
	// DB is the application's pool, with its rights.
	DB *sql.DB
	// Fence, InTx and InTxAndRelease are those of the driver's package.
	Fence                func(ctx context.Context, tx FenceTx, lock *dibs.Lock) error
	InTx, InTxAndRelease func(ctx context.Context, db *sql.DB, lock *dibs.Lock, fn func(tx *sql.Tx) error) error
	// Guard updates a row on DB by the Guard of the driver's package.
	Guard func(ctx context.Context, row GuardedRow, token int64, set string, args ...any) error
}

// GuardedRow is a row with a column fence, as the drivers' Guards know it.
type GuardedRow struct {
	Table, Where string
	Args         []any
}

// FenceTx is what can be fenced: the drivers' Tx.
type FenceTx interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}
