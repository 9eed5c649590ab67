package dibsdriver

import (
	"context"
	"time"
)

const (
	// TokenStep is the least distance between the fencing tokens of two acquisitions of a key. The
	// engine numbers the handoffs of one acquisition by adding 1 to its token, fewer than TokenStep times.
	TokenStep = 1024

	// MaxToken is the largest fencing token: below 2^53, so that JSON, Lua and JavaScript keep it exact.
	MaxToken = 1<<53 - 1

	// OwnerLen is the length of an owner in characters (130 bits of randomness in base 32).
	OwnerLen = 26

	// Grace is how long after its context's end a call may still take to return.
	Grace = 50 * time.Millisecond

	// QueueGrace is how long a waiter that does not ask again may keep its place in a store's queue at most: a
	// dead or frozen process delays the others by no more.
	QueueGrace = 5 * time.Second

	// QueueAsk is how often, at the least, the engine asks again for a waiter that wants to keep its place.
	QueueAsk = time.Second
)

// Driver speaks to one store.
type Driver interface {
	// Acquire takes p.Key for p.Owner if the key is free or its lease has expired, in one atomic move, and answers
	// with the fencing token; or it answers, without changing anything but the queue, who holds the key and for how
	// long. A busy key is an answer, not an error.
	//
	// The token is at least TokenStep above every token that the key has ever had, whatever became of its row;
	// stores with a clock make it
	//
	//	max(previous + TokenStep, the store's time in microseconds, p.Floor + TokenStep)
	//
	// An owner is sent once. If it is there already (a proxy sent the request twice), that is an acquisition by it.
	Acquire(ctx context.Context, p AcquireParams) (AcquireResult, error)

	// Renew moves the end of each lease to now + TTL, never to an earlier time, and only where the row still is of
	// this owner, unexpired, and open (neither broken nor released into its min hold). It answers for each lease, in
	// the order given. It never waits for a row that somebody else has locked: such a lease is Unknown, and the others
	// are renewed all the same. An error stands for all leases of the batch: their answer is then Unknown,
	// or Refused where the error is ErrRefused.
	Renew(ctx context.Context, leases []Renewal) ([]RenewAnswer, error)

	// Release ends the lease of p.Owner: the key is free at once, or, with p.Keep > 0, taken for that much longer and
	// not renewable by anybody. It answers nil if this owner's lease was there and ErrLost if nothing of this owner is
	// there; it never touches anything else. Called again after it took effect it may answer either. The token of
	// the key must survive.
	Release(ctx context.Context, p ReleaseParams) error

	// List returns the unexpired leases whose keys begin with prefix (bytes), sorted by key.
	List(ctx context.Context, prefix string) ([]Record, error)

	// Break ends somebody's lease: with p.Now the key is free at once; without, no renewal succeeds from now on and the
	// key passes on at its expiry. It acts only if the lease's token t has t <= p.Token < t + TokenStep. It returns
	// the lease as it was. Held with another token: that Record and ErrTokenMismatch. Not held: ErrNotHeld.
	Break(ctx context.Context, p BreakParams) (Record, error)

	// Ping checks all that can be checked without taking a lock: reachable, tables and their version, rights.
	Ping(ctx context.Context) error

	// Limits says what the store can do. It does no I/O, and its answer does not change, except for an error that
	// says why this driver cannot work as it was configured (a pool that is too small, say).
	Limits() (Limits, error)

	// Close ends what the driver itself has started or opened, and nothing that it was given. A second call does nothing.
	Close() error
}

// AcquireParams are the arguments of [Driver.Acquire].
type AcquireParams struct {
	Key   string
	Owner string
	// TTL is the life of the lease, from now by the store's clock. (The engine has raised it to the min hold.)
	TTL time.Duration
	// Floor is the highest token that this process has seen of the key, or 0: a defence
	// against a store that forgot.
	Floor int64
	// Holder and Note are shown to others, who and what for.
	Holder, Note string
	// Waiter names the line that this process keeps for the key, if its head will ask again when the key is busy; empty for a
	// single attempt, which passes by the others that wait. Drivers that are a [Waker] or a [Leaver] use it.
	Waiter string
}

// AcquireResult is what [Driver.Acquire] answers.
type AcquireResult struct {
	// Acquired tells whether the key is now the owner's.
	Acquired bool
	// Token is the fencing token, if Acquired.
	Token int64
	// TTL is the life that the store granted; 0 means what was asked for.
	TTL time.Duration
	// Contended tells that another process may be waiting for the key.
	Contended bool
	// Holder describes who has the key, if not Acquired. Its Token is 0 if the key is free but others stand before
	// the caller in the store's queue.
	Holder Record
}

// Renewal is one lease of a batch for [Driver.Renew].
type Renewal struct {
	Key   string
	Owner string
	TTL   time.Duration
}

// RenewAnswer is what a store says of one renewal.
type RenewAnswer int

const (
	// Unknown: nobody can say. The lease loses nothing but time, and the engine asks again.
	Unknown RenewAnswer = iota
	// Renewed: the lease now ends TTL after the request.
	Renewed
	// Lost: the lease is not this owner's any more, or may not be renewed any more.
	Lost
	// Refused: the request itself was wrong and will be wrong again. It is reported at once, and the lease lives on as
	// long as it was trusted.
	Refused
)

// ReleaseParams are the arguments of [Driver.Release].
type ReleaseParams struct {
	Key   string
	Owner string
	// Keep is what is left of the min hold; 0 frees the key at once.
	Keep time.Duration
}

// BreakParams are the arguments of [Driver.Break].
type BreakParams struct {
	Key   string
	Token int64
	Now   bool
}

// Record is a lease as its store shows it.
type Record struct {
	Key          string
	Holder, Note string
	Token        int64
	// Since is when the lease was acquired, by the store's clock; zero if the store does not tell.
	Since time.Time
	// ExpiresIn is what was left of it when the store answered.
	ExpiresIn time.Duration
	// Ending tells that the lease is not open: it was broken, or released into its min hold, and nobody can renew it. Only List needs to tell.
	Ending bool
}

// Limits says what a store can do.
type Limits struct {
	// Store names the store in errors and logs, without a password: "sqlite:/var/lib/x.db".
	Store string
	// MinTTL is the smallest TTL that the store can keep.
	MinTTL time.Duration
	// SessionTTL, if not 0, is the TTL of the session on which all leases hang; a TTL per call is then ErrUnsupported.
	SessionTTL time.Duration
	// PollMin and PollMax bound the pause between two questions of a waiter that nobody wakes.
	PollMin, PollMax time.Duration
	// RenewBatch is the largest number of leases in one Renew; 0 means no limit.
	RenewBatch int
	// Queues tells that the store keeps a line between processes by the questions themselves: an Acquire with a Waiter that finds the key busy keeps
	// a place for it, a free key goes to the first place only, and success gives the place up in the same move. A place lasts until
	// [Leaver].Leave, or until its waiter has not asked again for a time that the store chooses between QueueAsk and QueueGrace.
	Queues bool
}

// Waker is a driver that can tell when a busy key may be free.
type Waker interface {
	// Wait returns nil when the key may have become free for this waiter, and an error when ctx ends or the store cannot tell
	// (the engine then polls). Too early is harmless. It must not miss a release that came after the Acquire that
	// answered busy: it looks once more after it has subscribed. The engine bounds each wait somewhat below QueueGrace, and goes on asking, by Acquire, while it
	// lasts.
	Wait(ctx context.Context, p WaitParams) error
}

// WaitParams are the arguments of [Waker].Wait and [Leaver].Leave.
type WaitParams struct {
	Key string
	// Waiter is the same as in AcquireParams.
	Waiter string
}

// Leaver is a driver that keeps something in the store for a waiter that it told "busy", or that waits: a place in a line, or a turn.
type Leaver interface {
	// Leave gives it up. Nothing there: nil.
	Leave(ctx context.Context, p WaitParams) error
}

// Contender is a driver that can tell whether others wait for a key that this process holds. The engine asks it while it hands a
// lease on within the process: as long as nobody else waits, it may go on. Of a driver that is none, the engine assumes that
// somebody may be waiting.
type Contender interface {
	// Contended tells whether another process may be waiting for the key. After true the engine releases the key soon. A driver may pass
	// the turn to the next in line with it.
	Contended(ctx context.Context, key string) (bool, error)
}
