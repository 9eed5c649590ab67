package dibsdriver

import "errors"

var (
	// ErrUnavailable: the store did not answer, or answered that it cannot serve; what became of the request depends on its [Fate].
	ErrUnavailable = errors.New("dibs: store unavailable")
	// ErrReadOnly: the store takes no writes at present. Errors that wrap it wrap ErrUnavailable as well.
	ErrReadOnly = errors.New("dibs: store is read-only")
	// ErrRefused: the request is wrong and will be wrong again: a missing table or right, a newer schema. Waiting does not help.
	ErrRefused = errors.New("dibs: store refused the request")
	// ErrLost: nothing of this owner is there.
	ErrLost = errors.New("dibs: lock lost")
	// ErrNotHeld: nobody holds the key that was to be broken.
	ErrNotHeld = errors.New("dibs: key is not held")
	// ErrTokenMismatch: the key that was to be broken is held, with another token.
	ErrTokenMismatch = errors.New("dibs: key is held with another token")
	// ErrUnsupported: this store cannot do that.
	ErrUnsupported = errors.New("dibs: not supported by this store")
	// ErrClosed: the driver was closed.
	ErrClosed = errors.New("dibs: closed")
)

// Fate is what may have become of a request that ended with an error.
type Fate int

const (
	// FateUnknown: it may have been applied, or may still be. The default.
	FateUnknown Fate = iota
	// FateSettled: it has been applied or has not, and nothing of it is still under way.
	FateSettled
	// FateNotApplied: it has not been applied and will not be.
	FateNotApplied
)

type fateError struct {
	fate Fate
	err  error
}

func (e *fateError) Error() string { return e.err.Error() }
func (e *fateError) Unwrap() error { return e.err }

// NotApplied marks err: the request had no effect and will have none. Nil stays nil.
func NotApplied(err error) error { return withFate(err, FateNotApplied) }

// Settled marks err: the request had its effect or had none, and will have no other. Nil stays nil.
func Settled(err error) error { return withFate(err, FateSettled) }

func withFate(err error, fate Fate) error {
	if err == nil {
		return nil
	}
	return &fateError{fate: fate, err: err}
}

// FateOf says what may have become of the request that ended with err.
func FateOf(err error) Fate {
	if e, ok := errors.AsType[*fateError](err); ok {
		return e.fate
	}
	return FateUnknown
}
