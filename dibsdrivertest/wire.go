package dibsdrivertest

import (
	"context"
	"errors"
	"time"

	"github.com/dibs-go/dibs"
)

// What a test and its helper process say to each other: a line of JSON each.

// order is what a taker is told to do.
type order struct {
	ID  int
	Do  string // acquire, try, release, verify, info, work, begin, commit, transfer, churn
	Key string `json:",omitempty"`
	// The terms of an acquisition; 0 for the locker's defaults.
	TTL, MaxHold, MinHold time.Duration
	// MaxWait is 0 for a wait without an end.
	MaxWait time.Duration
	// Work is what a worker does until it is killed, or told to stop.
	Work *workOrder `json:",omitempty"`
	// Churn is what a process does to a few keys until its time is over.
	Churn *churnOrder `json:",omitempty"`
	// Fence is what is to be done in fenced transactions.
	Fence *fenceOrder `json:",omitempty"`
}

// report is what a taker says: the answer to an order, or what happened.
type report struct {
	ID    int    // of the order, 0 for what happened by itself
	What  string // ready, done, ended, section, refused
	Key   string `json:",omitempty"`
	Token int64  `json:",omitempty"`
	At    mono
	Error *remoteError `json:",omitempty"`
	// Text answers "info".
	Text string `json:",omitempty"`
	// Section is what became of a section of a worker's.
	Section *section `json:",omitempty"`
}

// remoteError is an error of another process. It is what it was there, to errors.Is.
type remoteError struct {
	Text  string
	Kinds []string
}

var kinds = map[string]error{
	"busy": dibs.ErrBusy, "held": dibs.ErrHeld, "lost": dibs.ErrLost, "max hold": dibs.ErrMaxHold, "released": dibs.ErrReleased,
	"closed": dibs.ErrClosed, "unavailable": dibs.ErrUnavailable, "read-only": dibs.ErrReadOnly, "invalid key": dibs.ErrInvalidKey,
	"unsupported": dibs.ErrUnsupported, "canceled": context.Canceled, "deadline": context.DeadlineExceeded,
}

func remote(err error) *remoteError {
	if err == nil {
		return nil
	}
	r := &remoteError{Text: err.Error()}
	for name, kind := range kinds {
		if errors.Is(err, kind) {
			r.Kinds = append(r.Kinds, name)
		}
	}
	return r
}

func (r *remoteError) Error() string { return r.Text }

// Is implements the interface of errors.Is.
func (r *remoteError) Is(target error) bool {
	for _, name := range r.Kinds {
		if kinds[name] == target {
			return true
		}
	}
	return false
}

// err makes an error of what may be none.
func (r *remoteError) err() error {
	if r == nil {
		return nil
	}
	return r
}
