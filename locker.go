package dibs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/call"
	"github.com/dibs-go/dibs/internal/keeper"
	"github.com/dibs-go/dibs/internal/line"
	"github.com/dibs-go/dibs/internal/load"
	"github.com/dibs-go/dibs/internal/outbox"
	"github.com/dibs-go/dibs/internal/seen"
	"github.com/dibs-go/dibs/internal/settle"
)

// Locker takes locks on one store. It may be used by any number of goroutines at once. A process needs one for
// each store; end it with [Locker.Shutdown].
type Locker struct {
	*engine
	defaults options
}

// engine is what a Locker and those made of it by With share.
type engine struct {
	driver dibsdriver.Driver
	limits dibsdriver.Limits
	cfg    Config

	group   *call.Group    // owns every goroutine of the Locker but the outbox's
	outbox  *outbox.Outbox // its goroutine runs users' functions, which take as long as they like
	seen    *seen.Tokens
	settler *settle.Settler
	keeper  *keeper.Keeper
	lines   *line.Lines
	load    load.Meter

	// background ends with the Locker, never with a caller's context.
	background context.Context

	mu       sync.Mutex
	sections map[*section]struct{}
	closing  bool
	drained  chan struct{} // closed when closing and no section is left
}

// seenKeys is how many keys' tokens a Locker remembers one by one.
const seenKeys = 10_000

// New returns a Locker on the store that d speaks to, whose settings are in cfg (nil: all defaults). It does no I/O; see
// [Locker.Ping]. The error says which settings do not fit together or do not suit the store. From now on
// the driver is the Locker's, and Shutdown closes it.
func New(d dibsdriver.Driver, cfg *Config) (*Locker, error) {
	if d == nil {
		return nil, errors.New("dibs: New needs a driver: see dibssqlite, dibsmem and their like")
	}
	limits, err := d.Limits()
	if err != nil {
		return nil, err
	}
	settled, err := cfg.settled(limits)
	if err != nil {
		return nil, err
	}
	group := call.NewGroup()
	e := &engine{
		driver: d, limits: limits, cfg: settled, group: group,
		outbox:     outbox.New(),
		seen:       seen.New(seenKeys),
		background: context.Background(),
		sections:   make(map[*section]struct{}),
		drained:    make(chan struct{}),
	}
	e.settler = &settle.Settler{Driver: d, Group: group, Timeout: settled.RequestTimeout, Session: limits.SessionTTL > 0}
	e.keeper = &keeper.Keeper{
		Driver: d, Group: group, Timeout: settled.RequestTimeout, Batch: limits.RenewBatch,
		Refused: e.renewalRefused,
	}
	e.lines = &line.Lines{
		Driver: d, Limits: limits, Group: group, Settler: e.settler, Seen: e.seen,
		Timeout: settled.RequestTimeout, Holder: settled.Name,
		Grew: e.countWaiters,
	}
	return &Locker{engine: e, defaults: options{ttl: settled.TTL, maxHold: settled.MaxHold}}, nil
}

// With returns the same Locker with other defaults for its calls. What it takes and what the receiver takes exclude each other as ever,
// and shutting down one shuts down both. An option that cannot be kept is the error of each call.
func (l *Locker) With(opts ...Option) *Locker {
	return &Locker{engine: l.engine, defaults: l.terms(opts)}
}

func (l *Locker) terms(opts []Option) options {
	o := l.defaults
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

func (e *engine) renewalRefused(key string, err error) {
	e.log(outbox.Frequent, slog.LevelError, "dibs: the store refuses to renew a lease", "key", e.userKey(key), "store", e.limits.Store, "error", err)
	e.tell(outbox.Frequent, e.cfg.Events.RenewalRefused, Event{Key: e.userKey(key), Err: err})
}

func (e *engine) userKey(key string) string { return key[len(e.cfg.Prefix):] }

// enter counts a section, unless the Locker is closing.
func (e *engine) enter(s *section) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return false
	}
	e.sections[s] = struct{}{}
	return true
}

func (e *engine) exit(s *section) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sections, s)
	e.drain()
}

// drain is called with the lock held.
func (e *engine) drain() {
	if !e.closing || len(e.sections) > 0 {
		return
	}
	select {
	case <-e.drained:
	default:
		close(e.drained)
	}
}

func (e *engine) closed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closing
}

// Shutdown ends the Locker: nothing is acquired any more ([ErrClosed], for those who wait as well), the contexts of all works end
// with ErrClosed, and their leases are renewed until each work has released its lock. When ctx ends first, what is
// left is left to lapse by itself, and the context's error is returned. In the end the driver is closed.
//
// Last of all it waits until the [Events] and the log have been told what is left to tell: until ctx ends, or one function has taken a second, as one of them does that calls Shutdown
// itself. What is left then is told after Shutdown has returned, which is no error. A second call waits as the first does.
func (l *Locker) Shutdown(ctx context.Context) error {
	e := l.engine
	e.mu.Lock()
	e.closing = true
	e.drain()
	for s := range e.sections {
		s.stop(ErrClosed)
	}
	e.mu.Unlock()
	e.lines.Close(ErrClosed)

	var err error
	select {
	case <-e.drained:
		err = e.group.Wait(ctx)
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		e.keeper.StopAll(ErrClosed)
		e.group.Cancel()
		wait, cancel := context.WithTimeout(e.background, 2*dibsdriver.Grace)
		defer cancel()
		_ = e.group.Wait(wait) // what hangs even so is the driver's, and ends when its store lets it
	}
	e.group.Cancel()
	err = errors.Join(err, e.driver.Close())
	if ctx.Err() != nil {
		last, cancel := context.WithTimeout(e.background, dibsdriver.Grace)
		defer cancel()
		ctx = last
	}
	e.outbox.Drain(ctx)
	return err
}

// Ping checks that the store can be used, as far as that can be seen without taking a lock: reachable, tables, rights, version. Call it at
// start-up: a deployment that fails is better than a job that fails at 02:00.
func (l *Locker) Ping(ctx context.Context) error {
	_, err := ask(ctx, l.engine, func(ctx context.Context) (struct{}, error) { return struct{}{}, l.driver.Ping(ctx) })
	return err
}

// ask makes a request that belongs to one caller.
func ask[T any](ctx context.Context, e *engine, f func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if e.closed() {
		return none, ErrClosed
	}
	c := call.Start(e.group, e.cfg.RequestTimeout, func(group context.Context) (T, error) {
		both, cancel := context.WithCancel(group)
		defer cancel()
		stop := context.AfterFunc(ctx, cancel) // a question may end with its asker: it changes nothing
		defer stop()
		return f(both)
	})
	t := time.NewTimer(e.cfg.RequestTimeout + dibsdriver.Grace)
	defer t.Stop()
	select {
	case <-c.Done():
		v, err := c.Result()
		if err != nil && ctx.Err() != nil {
			err = errors.Join(ctx.Err(), err)
		}
		return v, err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-t.C:
		return none, e.silent()
	}
}
