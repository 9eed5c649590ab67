// Package fencing is how drivers see the inside of a lock, to fence a transaction by it. Nobody else may.
package fencing

import (
	"context"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// Lease is what a driver has to know of a held lock. Its section cannot end, nor be handed on, until Unpin.
type Lease struct {
	// Driver is the driver whose store has the lease.
	Driver dibsdriver.Driver
	// Key is the key as the store knows it, Owner whose lease it is.
	Key, Owner string
	// Token is the section's own: with handoffs it is up to TokenStep-1 above what the store shows.
	Token int64
	// TTL is what each renewal asks for.
	TTL time.Duration
	// Unpin must be called once, when the commit is over.
	Unpin func()
	// Unseen says that the commit comes after Unpin, and that nobody will tell when: the section then ends through the store, whose row the
	// transaction has locked, and is not handed on within the process.
	Unseen func()
	// Verify asks the store, and renews the lease if it stands.
	Verify func(ctx context.Context) error
	// Keep is what is left of the min hold.
	Keep func() time.Duration
	// Freeing says that the commit will release the lease. It is an error if others in the process hold the lock as well (by Reenter).
	Freeing func() error
	// Freed says what became of that commit.
	Freed func(Outcome)
}

// Outcome is what became of a commit.
type Outcome int

const (
	// Unknown: the commit was sent, and its answer was lost.
	Unknown Outcome = iota
	// Committed: it took effect.
	Committed
	// NotCommitted: it had no effect, and will have none.
	NotCommitted
)

// Pin holds a lock's section open and returns its lease; an error if the section is over, or its lease has ended. lock is a *dibs.Lock.
// Package dibs sets it.
var Pin func(lock any) (Lease, error)
