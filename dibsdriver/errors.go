package dibsdriver

import (
	"errors"
	"fmt"
	"strings"
)

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
func NotApplied(err error) error { return WithFate(err, FateNotApplied) }

// Settled marks err: the request had its effect or had none, and will have no other. Nil stays nil.
func Settled(err error) error { return WithFate(err, FateSettled) }

// WithFate marks err with a fate. FateUnknown, which is that of an error without a mark, changes nothing; nil stays nil.
func WithFate(err error, fate Fate) error {
	if err == nil || fate == FateUnknown {
		return err
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

type namedError struct {
	text string
	is   []error
}

func (e *namedError) Error() string   { return e.text }
func (e *namedError) Unwrap() []error { return e.is }

// Named returns an error that reads as err does, and matches names as well as err with errors.Is and errors.As: people read a sentence, programs look for
// a name.
func Named(err error, names ...error) error {
	return &namedError{text: err.Error(), is: append(names[:len(names):len(names)], err)}
}

// Failed is the error of a request to a store, for callers: on which store, while doing what, what happened and what to do next, and the cause, unless
// what says it already. It matches names and the cause.
func Failed(store, doing, what string, cause error, names ...error) error {
	text := fmt.Sprintf("dibs: %s: %s: %s", store, doing, what)
	if c := cause.Error(); !strings.Contains(what, c) {
		text += ": " + c
	}
	return &namedError{text: text, is: append(names[:len(names):len(names)], cause)}
}
