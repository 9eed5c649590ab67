package dibsmysql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

var _ dibsdriver.Driver = (*Driver)(nil)

const (
	minTTL = 100 * time.Millisecond
	// A poll of a busy key reads one row by its key and locks nothing.
	pollMin, pollMax = 5 * time.Millisecond, 100 * time.Millisecond
	// At the longest keys this makes a statement of 300 KB; servers take 1 MB at the least.
	renewBatch = 500
)

// Config configures a [Driver]. The zero value, like a nil *Config, is all defaults.
type Config struct {
	// TablePrefix begins the names of the tables: lower-case letters, digits and underscores, at most 40, not first a digit. (Whether upper
	// case would be another table depends on the server.) Processes share locks only if they agree on it. Default "dibs_".
	TablePrefix string

	// Server is what errors call the store until the server has told its name, and what log lines call it: "db.example.com:3306/app", say. A *sql.DB does not tell
	// where it leads. It decides nothing, and is shown as it is, so it must have no password in it. Default "": they say "mysql" alone.
	Server string

	// WaitConnections is how many connections of the pool may wait inside the server at a time, for one contended key each (all waiters of a
	// process for one key share it). Waiters for keys beyond it look at the row now and then instead. Defaults to half of the pool less the
	// keeper's connection, at most 32; negative for none.
	WaitConnections int

	// Sweep lets the driver remove old rows, from its first lock on until Close. Default nil: the driver removes none.
	Sweep *SweepConfig
}

const defaultWaitConns = 32

var prefixPattern = lazily(`^[a-z_][a-z0-9_]{0,39}$`)

func (c *Config) prefix() (string, error) {
	if c == nil || c.TablePrefix == "" {
		return "dibs_", nil
	}
	if !prefixPattern().MatchString(c.TablePrefix) {
		return "", refused("dibs: mysql: table prefix %q: use lower-case letters, digits and underscores, at most 40 and not a digit first", c.TablePrefix)
	}
	return c.TablePrefix, nil
}

// Driver keeps locks in a database of a MySQL or MariaDB server. Create it with [New]; all its methods may be called concurrently. It is used
// through dibs.New, seldom by itself. Close it after the Locker was shut down, and before the *sql.DB.
type Driver struct {
	db        *sql.DB
	configErr error
	prefix    string
	called    string // what the store is called before the first contact
	q         *statements

	setup  chan struct{} // holds a token: who has it checks the tables
	server atomic.Pointer[server]
	where  atomic.Pointer[whereabouts]
	keeper keeper
	busy   busyKeys
	batons batons
	ghosts ghosts
	looks  atomic.Int64 // at rows, so far
	// waitConns is Config.WaitConnections.
	waitConns int

	sweeping *SweepConfig // nil: not at all
	sweeps   *sweepStatements
	swept    atomic.Bool  // whether it has begun to
	longest  atomic.Int64 // of all leases that were asked for

	background context.Context // ends with Close
	end        context.CancelFunc
	mu         sync.Mutex
	closed     bool
	calls      sync.WaitGroup
}

// New keeps the locks in the database that db's DSN names, in tables beside the user's own: see [Schema] and [Driver.CreateTables], which New
// does not call. The driver never closes db. New does no I/O; what is wrong with cfg or db is the error of dibs.New and of every call.
//
// db must use github.com/go-sql-driver/mysql, wrapped for tracing or not, with whatever DSN suits the user, but not autocommit=0. The
// driver leaves the sessions of its connections as they were. It takes one connection for itself from the first lock on until Close, so
// that renewals never wait for one; so the pool must allow two at least.
func New(db *sql.DB, cfg *Config) *Driver {
	prefix, err := cfg.prefix()
	d := &Driver{db: db, configErr: err, prefix: prefix, called: "mysql", q: newStatements(prefix), setup: make(chan struct{}, 1)}
	d.sweeps = newSweepStatements(prefix)
	if cfg != nil {
		if cfg.Server != "" {
			d.called += ":" + cfg.Server
		}
		d.waitConns = cfg.WaitConnections
		if cfg.Sweep != nil {
			sweeping := *cfg.Sweep
			d.sweeping = &sweeping
		}
		d.configErr = cmp.Or(d.configErr, cfg.Sweep.check())
	}
	d.keeper.init()
	d.setup <- struct{}{}
	d.background, d.end = context.WithCancel(context.Background())
	if db == nil && d.configErr == nil {
		d.configErr = refused("dibs: mysql: New was given no database (nil *sql.DB)")
	}
	return d
}

// Limits says what the store can do: TTLs from 100 ms on. Its error says what is wrong with the configuration.
func (d *Driver) Limits() (dibsdriver.Limits, error) {
	l := dibsdriver.Limits{Store: d.called, MinTTL: minTTL, PollMin: pollMin, PollMax: pollMax, RenewBatch: renewBatch}
	if d.configErr != nil {
		return l, d.configErr
	}
	if d.db.Stats().MaxOpenConnections == 1 {
		return l, refused("dibs: mysql: the *sql.DB allows one open connection, and dibs keeps one for renewals: call SetMaxOpenConns with 2 at least")
	}
	return l, nil
}

// lastLook bounds how long Close looks for statements that were abandoned a moment ago.
const lastLook = 300 * time.Millisecond

// Close waits for calls under way, which end soon, and gives up the keeper's connection. The *sql.DB stays open. A
// second call does nothing.
func (d *Driver) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.mu.Unlock()
	d.end()
	d.calls.Wait()
	d.ghosts.look(context.Background(), d, lastLook)
	d.closeBatons()
	d.keeper.close()
	return nil
}

// enter begins a call; the caller defers d.calls.Done when it succeeds.
func (d *Driver) enter(ctx context.Context) error {
	if _, err := d.Limits(); err != nil {
		return dibsdriver.NotApplied(err)
	}
	if err := ctx.Err(); err != nil {
		return dibsdriver.NotApplied(d.fail("start", err))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return dibsdriver.NotApplied(fmt.Errorf("dibs: %s: %w", d.name(), dibsdriver.ErrClosed))
	}
	d.calls.Add(1)
	return nil
}

// inBackground runs f beside the call under way, unless the driver is closed; Close ends its context and waits for it.
func (d *Driver) inBackground(f func(ctx context.Context)) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.calls.Go(func() { f(d.background) })
	}
	return !d.closed
}

// checkKey refuses what the engine never sends.
func (d *Driver) checkKey(key string) error {
	if key == "" || len(key) > 255 {
		return dibsdriver.NotApplied(refused("dibs: %s: a key has 1 to 255 bytes, not %d", d.name(), len(key)))
	}
	return nil
}

// micros rounds up: a lease may be longer than asked for, never shorter.
func micros(d time.Duration) int64 {
	n := d / time.Microsecond
	if d%time.Microsecond > 0 {
		n++
	}
	return int64(n)
}
