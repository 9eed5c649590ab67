package dibs

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/keeper"
)

// What callers test with errors.Is. Errors carry more: the key, the store, what to do next.
var (
	// ErrBusy: somebody else holds the key, and the wait (if any) is over. The error is a *[BusyError] as well.
	ErrBusy = errors.New("dibs: key is busy")
	// ErrHeld: the context already holds the key. Waiting would be a deadlock; see [Reenter].
	ErrHeld = errors.New("dibs: key is already held by this context")
	// ErrLost: the lease is no longer ours, or cannot be trusted any more. Somebody else may have it.
	ErrLost = dibsdriver.ErrLost
	// ErrMaxHold: the critical section took longer than its [MaxHold].
	ErrMaxHold = keeper.ErrMaxHold
	// ErrReleased: the lock was released before, or nobody holds the key that was to be broken.
	ErrReleased = errors.New("dibs: lock is released")
	// ErrClosed: the Locker was shut down.
	ErrClosed = dibsdriver.ErrClosed
	// ErrUnavailable: the store did not answer, or cannot serve; what became of the request may be unknown. An error that is dibsdriver.ErrRefused as well (a wrong password, a
	// missing table or right) stays until somebody mends it: trying again is of no use.
	ErrUnavailable = dibsdriver.ErrUnavailable
	// ErrReadOnly: the store takes no writes at present. Such an error is ErrUnavailable as well.
	ErrReadOnly = dibsdriver.ErrReadOnly
	// ErrOutcomeUnknown: a commit was sent and its answer was lost.
	ErrOutcomeUnknown = errors.New("dibs: outcome of the commit is unknown")
	// ErrInvalidKey: a key is 1 to 255 bytes of valid UTF-8, the prefix included.
	ErrInvalidKey = errors.New("dibs: invalid key")
	// ErrUnsupported: this store cannot do that.
	ErrUnsupported = dibsdriver.ErrUnsupported
)

// Info is a held lock as its store shows it.
type Info struct {
	// Key is the key as callers give it, without the configured prefix.
	Key string
	// Holder is the [Config].Name of the Locker that holds it; by default "HOST pid PID".
	Holder string
	// Note is what the holder said of its work, see [Note].
	Note string
	// Token is the fencing token of the acquisition. Handoffs within the holder's process add to it without telling the store.
	Token int64
	// Since is when the lease was acquired, in UTC by the store's clock. Zero if the store does not tell.
	Since time.Time
	// ExpiresIn is what was left of the lease when the store answered. A living holder renews it.
	ExpiresIn time.Duration
	// Ending, which only [Locker.Locks] tells, is true of a lock that nobody can renew any more, and that ends when it expires: it was broken ([Locker.Break]), or released
	// within its [MinHold].
	Ending bool
}

// BusyError says who holds a key that could not be had. It is [ErrBusy] to errors.Is.
type BusyError struct {
	Key string
	// Holder is the last that the store said; its Key is empty if the store was not asked, or the key was free and others stood first in line.
	Holder Info
	// Left is what is left of the holder's lease by now, 0 if not known. A living holder renews it.
	Left time.Duration
}

// about says of an error of the store which key it is about, and which store, unless the error begins with its name, as those of drivers do.
func (e *engine) about(doing, key string, err error) error {
	text, ours := strings.CutPrefix(err.Error(), "dibs: ")
	name, _, named := strings.Cut(text, ":") // it may be a better one than the store had before the first contact
	if ours && named && !strings.Contains(name, " ") || strings.Contains(text, e.limits.Store) {
		return fmt.Errorf("%s %q: %w", doing, key, err)
	}
	return fmt.Errorf("%s %q on %s: %w", doing, key, e.limits.Store, err)
}

// Error names the key, the holder and the time left.
func (e *BusyError) Error() string {
	switch {
	case e.Holder.Key == "":
		return fmt.Sprintf("dibs: %q is busy: others are waiting for it", e.Key)
	case e.Holder.Note != "":
		return fmt.Sprintf("dibs: %q is busy: held by %s (%s), %s left", e.Key, e.Holder.Holder, e.Holder.Note, e.Left.Round(time.Millisecond))
	default:
		return fmt.Sprintf("dibs: %q is busy: held by %s, %s left", e.Key, e.Holder.Holder, e.Left.Round(time.Millisecond))
	}
}

// Is reports whether target is [ErrBusy].
func (e *BusyError) Is(target error) bool { return target == ErrBusy }
