package dibsdriver

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Doctor is a driver that can examine its store, for an operator who wants to know why locks do not work, or whether they will.
type Doctor interface {
	// Examine looks at all that locks depend on and says what it found, in the order in which it is to be read. It changes nothing that stays, takes no
	// lock, and needs no more rights than the driver itself: what it is not allowed to see is a finding. One that goes wrong does not keep it from the others,
	// except where they could not be made (the store cannot be reached). It returns when ctx ends, at the latest Grace after, and soon in any case, with what it
	// has found by then; there is always a finding.
	Examine(ctx context.Context) []Finding
}

// Finding is what a [Doctor] says of one thing. Its texts are for people: sentences without a full stop, and never with a password.
type Finding struct {
	// Check is what was looked at, in a word or two ("clock", "time zone"). A check may have several findings.
	Check string
	Level Level
	// Found is what is there, and what that means where it is not plain.
	Found string
	// Advice is what to do about it; empty if nothing is to be done.
	Advice string
}

// Findings are those of an examination that is under way, for those who write a [Doctor]. Its methods must not be called concurrently.
type Findings []Finding

// OK adds that something is as it should be.
func (f *Findings) OK(check, format string, args ...any) {
	f.add(Finding{check, LevelOK, fmt.Sprintf(format, args...), ""})
}

// Warn adds a warning.
func (f *Findings) Warn(check, advice, format string, args ...any) {
	f.add(Finding{check, LevelWarning, fmt.Sprintf(format, args...), advice})
}

// Fault adds a fault.
func (f *Findings) Fault(check, advice, format string, args ...any) {
	f.add(Finding{check, LevelFault, fmt.Sprintf(format, args...), advice})
}

// add adds what was not found before: one thing may be asked about twice.
func (f *Findings) add(found Finding) {
	if !slices.Contains(*f, found) {
		*f = append(*f, found)
	}
}

// Split takes apart the text of an error that a driver has for its callers, "NAME: what happened: cause; what to do", into the parts of a [Finding]. names are
// what it may begin with, and are left out, each once and in this order; what is how the driver puts what happened, "" if it does not put it in words of
// its own. The advice is empty if the text has none.
func Split(err error, what string, names ...string) (found, advice string) {
	text := strings.ReplaceAll(err.Error(), "dibs: ", "")
	for _, name := range names {
		text = strings.TrimPrefix(text, name+": ")
	}
	cause := ""
	if what != "" && strings.HasPrefix(text, what) {
		text, cause = what, strings.TrimPrefix(text[len(what):], ": ")
	}
	found, advice, _ = strings.Cut(text, "; ")
	if cause != "" {
		found += " (" + cause + ")"
	}
	return found, advice
}

// Level says how bad a [Finding] is.
type Level int

const (
	// LevelOK: it is as it should be.
	LevelOK Level = iota
	// LevelWarning: locks work, and it costs something, or is a danger in special cases, or could not be looked at.
	LevelWarning
	// LevelFault: locks do not work, or what is promised of them does not hold.
	LevelFault
)

// String is the level in a word: "ok", "warning" or "fault".
func (l Level) String() string {
	switch l {
	case LevelOK:
		return "ok"
	case LevelWarning:
		return "warning"
	}
	return "fault"
}
