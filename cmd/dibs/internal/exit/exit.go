// Package exit has the statuses that dibs ends with by itself, and the one line that says why.
package exit

import (
	"errors"
	"fmt"
)

// The statuses are part of the command's contract. Those of COMMAND itself pass through unchanged.
const (
	OK          = 0
	Failed      = 1  // ls, break, init, doctor: the question was answered with no
	Usage       = 64 // wrong usage or configuration; nothing was run
	Unavailable = 69 // the store cannot be reached or used
	Busy        = 75 // the wait ran out; sweep: another is at it
	Lost        = 80 // the lease (or its guard) was lost and COMMAND was stopped
	MaxHold     = 81 // COMMAND ran longer than --max-hold and was stopped
	NotRunnable = 126
	NotFound    = 127
	Signal      = 128 // plus the number of the signal
)

// Error is an error that knows its status.
type Error struct {
	Status int
	Err    error
	// Silent leaves the line out: the status was asked for and says enough.
	Silent bool
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an [Error] as fmt.Errorf does.
func Errorf(status int, format string, args ...any) error {
	return &Error{Status: status, Err: fmt.Errorf(format, args...)}
}

// With gives err a status, unless it has one already. Nil stays nil.
func With(status int, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	return &Error{Status: status, Err: err}
}

// Status is the status of err: 0 for nil, and wrong usage for what says nothing (the flag parser's errors).
func Status(err error) int {
	if err == nil {
		return OK
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return Usage
}

// Silent tells whether err asks for no line.
func Silent(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Silent
}
