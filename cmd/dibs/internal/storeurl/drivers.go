package storeurl

import (
	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/dibssqlite"
)

// kind is a kind of store.
type kind struct {
	name string
	// schemes are what its URLs begin with.
	schemes []string
	// open makes a driver of what comes after "SCHEME:". Nil: this dibs has no driver for it yet.
	open func(address string) (dibsdriver.Driver, error)
	// schema is the DDL of its tables. Nil: it has none.
	schema func() string
	// check says what is wrong with an address, before anything is opened. May be nil.
	check func(s *Store) error
}

// kinds is every store that dibs knows. A new driver is a line here.
var kinds = []kind{
	{name: "sqlite", schemes: []string{"sqlite"}, open: openSQLite, schema: func() string { return dibssqlite.Schema(nil) }, check: checkSQLite},
	{name: "mysql", schemes: []string{"mysql", "mariadb", schemeDSN}},
	{name: "postgres", schemes: []string{"postgres", "postgresql"}},
	{name: "redis", schemes: []string{"redis", "rediss", "redis+cluster", "redis+sentinel"}},
	{name: "etcd", schemes: []string{"etcd"}},
	{name: "zookeeper", schemes: []string{"zk"}},
}

func openSQLite(path string) (dibsdriver.Driver, error) { return dibssqlite.Open(path, nil) }
