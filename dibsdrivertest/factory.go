package dibsdrivertest

import (
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// Factory makes stores of one kind.
type Factory struct {
	// Name is shown in the names of tests: "sqlite".
	Name string
	// New returns an empty store. It registers with t whatever has to be cleaned up.
	New func(t testing.TB) Store
	// Bubble tells that the store lives in this process's memory and waits for nothing but channels and timers, so that its tests
	// can run in a testing/synctest bubble, where time is exact.
	Bubble bool
	// RoundTrip is how long a message to the store and its answer are on their way, 0 for next to nothing. What takes several of them may take that
	// much longer; it is no reason for anything else to fail.
	RoundTrip time.Duration
	// Cases selects by name those that are run, nil all of them.
	Cases func(name string) bool
}

// Store is one store under test. What it can do beside this it says by implementing the other interfaces of this file.
type Store interface {
	// Driver returns a new driver to this store, as another process would have it.
	Driver(t testing.TB) dibsdriver.Driver
	// URL is how a helper process opens the same store (see Main), "" if none can.
	URL() string
	// Peek looks into the store with its own tool, not with the driver.
	Peek(t testing.TB, key string) Lease
}

// Lease is what Peek sees of a key.
type Lease struct {
	// Held: there is an owner, and the lease has not expired.
	Held bool
	// Left is the time until it expires.
	Left time.Duration
	// Token is the fencing token of the key's last acquisition, if it can be seen.
	Token int64
}

// ClockStepper is a store whose clock can be set forward, or back (d < 0).
type ClockStepper interface {
	// StepClock returns by how much the tokens stand higher now that are in the store already: a store whose clock
	// cannot really be moved has its rows moved the other way.
	StepClock(t testing.TB, d time.Duration) (tokens int64)
}

// RowRemover is a store that can forget a key, as a clean-up job or an operator's DELETE would make it.
type RowRemover interface {
	RemoveRow(t testing.TB, key string)
}

// QueueCounter is a store that keeps a line between processes and can tell how many stand in it.
type QueueCounter interface {
	Queued(t testing.TB, key string) int
}

// Blocker is a store that can be made to hang for everybody, as by a slow transaction of a stranger.
type Blocker interface {
	Block(t testing.TB) (unblock func())
}

// Networked is a store behind a server, so that a [Proxy] can stand on the wire to it.
type Networked interface {
	// Addr is where its clients connect.
	Addr() string
	// Via is the same store for clients that connect to addr instead.
	Via(addr string) Store
}

// SessionCounter is a store that can tell how many sessions of its drivers there are in the server, and how many of them are in the middle of
// something there.
type SessionCounter interface {
	Sessions(t testing.TB) (all, working int)
}

// Crasher is a store whose server belongs to the test alone and can be killed, as by a crash, and started again on its data.
type Crasher interface {
	Crash(t testing.TB) (restart func())
}

// Cleaner is a store from which a driver removes old rows if it is told to.
type Cleaner interface {
	// Cleaning is the same store for clients that remove old rows all the time, and as soon as it may be.
	Cleaning() Store
}

// PeekByList is a Peek for stores that have no tool but the driver.
func PeekByList(t testing.TB, d dibsdriver.Driver, key string) Lease {
	t.Helper()
	records, err := d.List(t.Context(), key)
	if err != nil {
		t.Fatalf("peeking at %q: %v", key, err)
	}
	for _, r := range records {
		if r.Key == key {
			return Lease{Held: true, Left: r.ExpiresIn, Token: r.Token}
		}
	}
	return Lease{}
}
