package dibsmem

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// Store keeps leases in memory. It is a [dibsdriver.Driver] and may be used by any number of Lockers and goroutines at once.
type Store struct {
	mu     sync.Mutex
	keys   map[string]*row
	fail   error
	offset time.Duration
	// changed is closed, and made anew, whenever a key may have become free.
	changed chan struct{}
	swept   time.Time
	floor   int64 // the highest token of the rows that were removed
}

// row is a key. Like a table's row it outlives its lease, because the token has to.
type row struct {
	token        int64
	owner        string // empty when free
	open         bool   // may be renewed
	holder, note string
	since, ends  time.Time
	line         []*place
}

// place is a place in the line between Lockers.
type place struct {
	waiter string
	asked  time.Time
}

// retention is how long the row of a free key is kept.
const retention = time.Minute

var (
	_ dibsdriver.Driver    = (*Store)(nil)
	_ dibsdriver.Waker     = (*Store)(nil)
	_ dibsdriver.Leaver    = (*Store)(nil)
	_ dibsdriver.Contender = (*Store)(nil)
)

// New returns an empty store.
func New() *Store {
	return &Store{keys: make(map[string]*row), changed: make(chan struct{})}
}

// Expire ends the lease of a key at once, as if its holder had not renewed it in time; the holder finds out at its next renewal.
// The key is the store's: with the prefix, if the Locker has one. A key that nobody holds is left alone.
func (s *Store) Expire(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.keys[key]; r != nil && r.owner != "" {
		r.ends = s.now()
		s.change()
	}
}

// Fail makes every request fail with err, which callers see as dibs.ErrUnavailable, until Fail(nil). Nothing is applied meanwhile.
func (s *Store) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
	s.change()
}

// Step sets the store's clock forward, or back if d is negative, against everybody else's.
func (s *Store) Step(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset += d
	s.change()
}

// now is the store's clock.
func (s *Store) now() time.Time { return time.Now().Add(s.offset) }

func (s *Store) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// enter locks the store for one request, which must unlock it if err is nil.
func (s *Store) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return dibsdriver.NotApplied(fmt.Errorf("%w: memory: %w", dibsdriver.ErrUnavailable, ctx.Err()))
	}
	s.mu.Lock()
	if s.fail != nil {
		defer s.mu.Unlock()
		return dibsdriver.NotApplied(fmt.Errorf("%w: memory: %w", dibsdriver.ErrUnavailable, s.fail))
	}
	return nil
}

// Ping implements [dibsdriver.Driver].
func (s *Store) Ping(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	s.mu.Unlock()
	return nil
}

// Limits implements [dibsdriver.Driver].
func (s *Store) Limits() (dibsdriver.Limits, error) {
	return dibsdriver.Limits{
		Store: "memory", MinTTL: 50 * time.Millisecond, PollMin: time.Millisecond, PollMax: 20 * time.Millisecond, Queues: true,
	}, nil
}

// Close does nothing: other Lockers may be using the store.
func (s *Store) Close() error { return nil }
