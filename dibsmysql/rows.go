package dibsmysql

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// RowsConfig configures [Rows]. The zero value, like a nil *RowsConfig, is all defaults.
type RowsConfig struct {
	// TablePrefix begins the name of the table, as in [Config]. Default "dibs_".
	TablePrefix string
	// MaxConns is how many connections of the pool row locks use at most at the same time, 2 or more. One of them watches over long holds and over
	// waits, and each of the others is a transaction that has a row, or waits for one. Whoever finds none left waits in this
	// process. Default: half of the pool (SetMaxOpenConns), but 2 at least; 20 if the pool has no limit. A pool that is for row locks alone may be used up.
	MaxConns int
	// MultiPrimary allows a server that is part of a cluster in which several servers take writes (Galera, or Group Replication in
	// multi-primary mode). A row is locked on one server only, so that two nodes may let two in at once. With MultiPrimary each transaction also writes to its row:
	// of two, one then fails when it commits, and Do says that it is not committed. What the works do beside the database is not kept apart.
	// Default false: [NewRows] refuses such a server. Connect all processes to one node instead.
	MultiPrimary bool
}

// Rows are row locks: see the section in the package's documentation. Create it with [NewRows]. All its methods may be called concurrently. There is nothing to close:
// when no work is under way, it holds no connection.
type Rows struct {
	d     *Driver // the way to the server, and the words for its errors
	table string
	multi bool
	q     rowStatements
	slots chan struct{}
	watch rowWatch

	mu    sync.Mutex
	ids   map[string]int64
	lines map[string]*rowLine
}

// unlimited is the default for pools without a limit.
const rowsUnlimited = 20

// NewRows checks the server, the table and the user's rights to it, and reads the names that are registered. It never creates the table: see [Schema].
//
// db may be the application's pool, with any DSN but autocommit=0, or one that is for row locks alone; it must allow two connections at least. It is never closed.
// The user needs SELECT, INSERT and UPDATE on the table dibs_rows.
//
// Its errors are dibs.ErrUnavailable, with dibs.ErrReadOnly for a server that takes no writes; dibs.ErrUnsupported for a cluster with several primaries (see
// [RowsConfig].MultiPrimary) and for servers before MySQL 8.0.1 and MariaDB 10.6; and those of the configuration.
func NewRows(ctx context.Context, db *sql.DB, cfg *RowsConfig) (*Rows, error) {
	if cfg == nil {
		cfg = &RowsConfig{}
	}
	if db == nil {
		return nil, refused("dibs: mysql: NewRows was given no database (nil *sql.DB)")
	}
	prefix, err := (&Config{TablePrefix: cfg.TablePrefix}).prefix()
	if err != nil {
		return nil, err
	}
	most, err := cfg.conns(db.Stats().MaxOpenConnections)
	if err != nil {
		return nil, err
	}
	r := &Rows{
		d: New(db, &Config{TablePrefix: prefix}), table: prefix + "rows", multi: cfg.MultiPrimary,
		slots: make(chan struct{}, most-1), ids: make(map[string]int64), lines: make(map[string]*rowLine),
	}
	r.watch.init(r)
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	return r, r.load(ctx, nil)
}

// conns is how many connections there may be, of a pool with this limit.
func (c *RowsConfig) conns(pool int) (int, error) {
	switch {
	case pool == 1:
		return 0, refused("dibs: mysql: the *sql.DB allows one open connection, and row locks need two, of which one watches: call SetMaxOpenConns with 2 at least")
	case c.MaxConns < 0 || c.MaxConns == 1:
		return 0, refused("dibs: mysql: RowsConfig.MaxConns is %d: it must be 2 at least, one of which watches (0 is the default)", c.MaxConns)
	case pool > 0 && c.MaxConns > pool:
		return 0, refused("dibs: mysql: RowsConfig.MaxConns is %d, and the *sql.DB allows %d open connections: raise SetMaxOpenConns, or lower it", c.MaxConns, pool)
	case c.MaxConns > 0:
		return c.MaxConns, nil
	case pool <= 0:
		return rowsUnlimited, nil
	}
	return max(2, (pool+1)/2), nil
}

// maxRowShards is beyond what helps: each shard is a row that somebody has to register.
const maxRowShards = 1024

// Shard returns the name of one of n shards of name, chosen by a hash of by (a customer's number, say). Exclusion then holds within a shard only: of works
// for the same by no two run at once, of others up to n. All processes must use the same n, and have registered it ([Rows.RegisterShards]). It is an
// error if n is not 1 to 1024, or if the shard's name would be longer than 255 bytes (dibs.ErrInvalidKey).
func (r *Rows) Shard(name string, n int, by string) (string, error) {
	if n < 1 || n > maxRowShards {
		return "", fmt.Errorf("dibs: %s: %d shards of row lock %q: there may be 1 to %d", r.d.name(), n, name, maxRowShards)
	}
	shard := dibs.Shard(name, n, by)
	return shard, r.checkName(shard)
}

// RegisterShards registers the n shards of name, so that [Rows.Shard] can be used. Its errors are those of both.
func (r *Rows) RegisterShards(ctx context.Context, name string, n int) error {
	if _, err := r.Shard(name, n, ""); err != nil {
		return err
	}
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s/%d", name, i)
	}
	return r.Register(ctx, names...)
}

// take is a connection of the pool. Where that is used up, a wait without an end would be one for those who wait for us.
func (r *Rows) take(ctx context.Context) (session, error) {
	wait, cancel := ctx, context.CancelFunc(func() {})
	full := r.d.full()
	if full {
		wait, cancel = context.WithTimeout(ctx, rowPoolWait)
	}
	defer cancel()
	conn, err := r.d.db.Conn(wait)
	if err != nil && full && ctx.Err() == nil && wait.Err() != nil {
		err = named(fmt.Errorf("dibs: %s: all %d connections of the pool have been in use for %s; raise SetMaxOpenConns, or give row locks a *sql.DB of their "+
			"own (a transaction that asks the pool for another connection may wait for itself)", r.d.name(), r.d.db.Stats().MaxOpenConnections, rowPoolWait),
			dibsdriver.ErrUnavailable)
	}
	return session{conn, nil}, err
}
