package dibs

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/dibs-go/dibs/dibsdriver"
)

// Option changes one call (or, by [Locker.With], all calls) from what [Config] says.
type Option func(*options)

// options are the terms of one call.
type options struct {
	ttl     time.Duration
	maxWait time.Duration
	waits   bool // maxWait was given
	maxHold time.Duration
	minHold time.Duration
	note    string
	reenter bool
}

// MaxWait bounds the wait for a busy key; the error is then [ErrBusy]. 0 is one attempt. Without it only the context
// bounds the wait. TryAcquire and TryDo ignore it. A negative wait is an error.
func MaxWait(d time.Duration) Option { return func(o *options) { o.maxWait, o.waits = d, true } }

// TTL is how long the lease lasts after its last renewal, see [Config]. Stores whose leases hang on a session
// answer [ErrUnsupported].
func TTL(d time.Duration) Option { return func(o *options) { o.ttl = d } }

// MaxHold is the longest time that this critical section may take, see [Config]. 0 is no limit.
func MaxHold(d time.Duration) Option { return func(o *options) { o.maxHold = d } }

// MinHold is the shortest time that the key stays taken, even if the work is done and the lock released before: a quick job
// then does not run again on a node whose clock is behind. Release does not wait for it. 0 is none; at most 24 h.
func MinHold(d time.Duration) Option { return func(o *options) { o.minHold = d } }

// Note tells others what the lock is held for: it is shown in [Info] and in [BusyError]. Up to 1024 bytes of UTF-8.
func Note(s string) Option { return func(o *options) { o.note = s } }

// Reenter lets a context that already holds the key take it again, instead of [ErrHeld]. First of all: goroutines that
// share such a context do not exclude each other. The lock counts how often it was taken, and its last release is the real
// one; the other options of an inner call are ignored.
func Reenter() Option { return func(o *options) { o.reenter = true } }

// check says which of the terms cannot be kept, or do not fit together.
func (o *options) check(c *Config, limits dibsdriver.Limits) error {
	margin := c.margin(o.ttl)
	switch {
	case limits.SessionTTL > 0 && o.ttl != limits.SessionTTL:
		return fmt.Errorf("%w: a TTL per call (%s): all leases on %s live as long as its session, %s",
			ErrUnsupported, o.ttl, limits.Store, limits.SessionTTL)
	case o.ttl <= 0:
		return fmt.Errorf("dibs: TTL is %s: it must be positive (there is no lock without an end)", o.ttl)
	case o.ttl < limits.MinTTL:
		return fmt.Errorf("dibs: TTL is %s: the smallest that %s can keep is %s", o.ttl, limits.Store, limits.MinTTL)
	case o.ttl > maxTTL:
		return fmt.Errorf("dibs: TTL is %s: it may be %s at most; leases are renewed, so it need not cover the work", o.ttl, maxTTL)
	case margin < 0:
		return fmt.Errorf("dibs: Config.Margin is %s: it must be positive", margin)
	case margin > o.ttl/3:
		return fmt.Errorf("dibs: the margin of %s is more than a third of the TTL of %s: no time would be left for renewals", margin, o.ttl)
	case o.waits && o.maxWait < 0:
		return fmt.Errorf("dibs: MaxWait is %s: it must be 0 (one attempt) or more; leave it out to wait as long as the context", o.maxWait)
	case o.maxHold < 0:
		return fmt.Errorf("dibs: MaxHold is %s: it must be positive, or 0 for no limit", o.maxHold)
	case o.minHold < 0:
		return fmt.Errorf("dibs: MinHold is %s: it must be positive, or 0 for none", o.minHold)
	case o.minHold > maxTTL:
		return fmt.Errorf("dibs: MinHold is %s: it may be %s at most", o.minHold, maxTTL)
	case o.maxHold > 0 && o.minHold > o.maxHold:
		return fmt.Errorf("dibs: MinHold (%s) is longer than MaxHold (%s)", o.minHold, o.maxHold)
	case o.minHold > 0 && limits.SessionTTL > 0:
		return fmt.Errorf("%w: MinHold: leases on %s end with their session", ErrUnsupported, limits.Store)
	case len(o.note) > maxNote || !utf8.ValidString(o.note):
		return fmt.Errorf("dibs: Note must be valid UTF-8 of at most %d bytes", maxNote)
	}
	return nil
}
