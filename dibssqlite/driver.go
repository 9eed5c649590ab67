package dibssqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

var (
	_ dibsdriver.Driver    = (*Driver)(nil)
	_ dibsdriver.Waker     = (*Driver)(nil)
	_ dibsdriver.Leaver    = (*Driver)(nil)
	_ dibsdriver.Contender = (*Driver)(nil)
)

const (
	minTTL = 100 * time.Millisecond
	// A poll costs some ten microseconds and writes nothing, so waiters may ask often.
	pollMin, pollMax = 2 * time.Millisecond, 25 * time.Millisecond
	renewBatch       = 500
	// Polls of different keys read side by side, up to this many; each has a connection of its own. (Open only.)
	maxReaders = 4
)

// Config configures a [Driver]. The zero value, like a nil *Config, is all defaults.
type Config struct {
	// TablePrefix begins the names of the tables: letters, digits and underscores, not first a digit, not "sqlite_".
	// Processes share locks only if they agree on it. Default "dibs_".
	TablePrefix string
}

var prefixPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (c *Config) prefix() (string, error) {
	if c == nil || c.TablePrefix == "" {
		return "dibs_", nil
	}
	p := c.TablePrefix
	if !prefixPattern.MatchString(p) || strings.HasPrefix(strings.ToLower(p), "sqlite_") {
		return "", named(fmt.Errorf("dibs: sqlite: table prefix %q: use letters, digits and underscores, not a digit first, and not sqlite_", p),
			dibsdriver.ErrRefused)
	}
	return p, nil
}

// Driver keeps locks in one SQLite database. Create it with [Open] or [New]; all its methods may be called concurrently.
// It is used through dibs.New, seldom by itself. Close it after the Locker was shut down.
type Driver struct {
	store     string // "sqlite:PATH"
	path      string // with Open
	own       bool   // opened by us: all connections are ours, for good
	db        *sql.DB
	configErr error
	q         *queries

	writer, keeper, readers *slots
	turn                    turnstile

	setup   chan struct{} // holds a token: who has it checks or makes the tables
	ready   atomic.Pointer[readiness]
	file    atomic.Pointer[string]    // with New: the file's path, once it is known
	kept    atomic.Pointer[readiness] // with New: the keeper has its connection
	swept   sweeper
	asked   places
	prober  prober
	closing chan struct{}

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup
}

// readiness says that the tables are there, in this file. A session made under another readiness is stale.
type readiness struct {
	file os.FileInfo // with Open; to notice that the file was replaced
	path string      // with Open; without links: beside it are SQLite's other files
	wal  bool        // with Open
}

func newDriver(db *sql.DB, store string, cfg *Config) *Driver {
	prefix, err := cfg.prefix()
	d := &Driver{
		store: store, db: db, configErr: err, q: newQueries(prefix),
		writer: newSlots(1), keeper: newSlots(1), readers: newSlots(maxReaders),
		setup: make(chan struct{}, 1), closing: make(chan struct{}),
	}
	d.setup <- struct{}{}
	return d
}

// New keeps the locks in db, in tables beside the user's own. The driver never closes db; the tables are made on first use.
// New does no I/O; what is wrong with cfg or db is the error of dibs.New and of every call.
//
// db must have been opened with modernc.org/sqlite (wrapped for tracing or not), on a file, and may use a rollback journal or WAL. The
// driver uses its connections as it finds them, sets no PRAGMA on them and returns them as they were, except for one, which it keeps from
// the first lock on until Close, so that renewals never wait for a connection. So the pool must allow two connections at least. Close
// the driver before db.
func New(db *sql.DB, cfg *Config) *Driver {
	d := newDriver(db, "sqlite", cfg)
	if db == nil && d.configErr == nil {
		d.configErr = named(errors.New("dibs: sqlite: New was given no database (nil *sql.DB)"), dibsdriver.ErrRefused)
	}
	return d
}

// Limits says what an SQLite file can do: TTLs from 100 ms on. Its error says what is wrong with the configuration.
func (d *Driver) Limits() (dibsdriver.Limits, error) {
	l := dibsdriver.Limits{
		Store: d.store, MinTTL: minTTL, PollMin: pollMin, PollMax: pollMax, RenewBatch: renewBatch, Queues: true,
	}
	if d.configErr != nil {
		return l, d.configErr
	}
	if !d.own && d.db.Stats().MaxOpenConnections == 1 {
		return l, named(errors.New("dibs: sqlite: the *sql.DB allows one open connection, and dibs keeps one for renewals: "+
			"call SetMaxOpenConns with 2 at least, or let dibs use a file of its own (dibssqlite.Open)"), dibsdriver.ErrRefused)
	}
	return l, nil
}

// Close waits for calls under way, which end soon, and closes what Open opened. A database given to New stays
// open. A second call does nothing.
func (d *Driver) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	close(d.closing)
	d.mu.Unlock()
	d.calls.Wait()

	d.writer.closeAll()
	d.keeper.closeAll()
	d.readers.closeAll()
	d.prober.close()
	if !d.own {
		return nil
	}
	if err := d.db.Close(); err != nil {
		return d.fail("close", err)
	}
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
		return d.closedError()
	}
	d.calls.Add(1)
	return nil
}

func (d *Driver) closedError() error {
	return dibsdriver.NotApplied(fmt.Errorf("dibs: %s: %w", d.store, dibsdriver.ErrClosed))
}

// checkKey refuses what the engine never sends.
func (d *Driver) checkKey(key string) error {
	if key == "" || len(key) > 255 {
		return dibsdriver.NotApplied(named(fmt.Errorf("dibs: %s: a key has 1 to 255 bytes, not %d", d.name(), len(key)), dibsdriver.ErrRefused))
	}
	return nil
}

// millis rounds up: a lease may be longer than asked for, never shorter.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

var errNoChange = errors.New("dibs: nothing to write")
