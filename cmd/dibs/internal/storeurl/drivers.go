package storeurl

import (
	"context"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// kind is a kind of store.
type kind struct {
	name string
	// schemes are what its URLs begin with.
	schemes []string
	// read makes of an address what can be opened, and says what is wrong with it before anything is. Nil: this dibs has no
	// driver for it yet.
	read func(s *Store) (target, error)
}

// target is what an address leads to.
type target struct {
	open func() (dibsdriver.Driver, error)
	// called is what the driver's errors call it before the first contact.
	called string
	// schema is the DDL of its tables; empty if it has none.
	schema string
	// words makes of a text of the driver, which speaks to programmers, one for users of the command. May be nil.
	words interface{ Replace(string) string }
}

// Maker is a driver whose store needs tables, which dibs init makes.
type Maker interface {
	// Make makes the tables and checks that they can be used. Its parameter is why they could not, before.
	Make(ctx context.Context, unusable error) error
	// Complete makes what is missing of tables that locks can do without, and returns a word about what still is then; empty if nothing.
	Complete(ctx context.Context) string
}

// Sweeper is a driver whose store keeps the rows of keys that nobody uses until they are removed.
type Sweeper interface {
	// Clean removes those that have been free or expired for the retention (0: the driver's default), and tells how many, also beside an error, and how much longer
	// than that the oldest had stayed. While another process does so, the error is dibs.ErrBusy.
	Clean(ctx context.Context, retention time.Duration) (rows int64, lag time.Duration, err error)
}

// kinds is every store that dibs knows. A new driver is a line here.
var kinds = []kind{
	{name: "sqlite", schemes: []string{"sqlite"}, read: readSQLite},
	{name: "mysql", schemes: []string{"mysql", "mariadb", schemeDSN}, read: readMySQL},
	{name: "postgres", schemes: []string{"postgres", "postgresql"}},
	{name: "redis", schemes: []string{"redis", "rediss", "redis+cluster", "redis+sentinel"}},
	{name: "etcd", schemes: []string{"etcd"}},
	{name: "zookeeper", schemes: []string{"zk"}},
}
