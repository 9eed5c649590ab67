package dibsdriver

import (
	"errors"
	"io"
	"testing"
)

func TestFates(t *testing.T) {
	marked := NotApplied(io.EOF)
	for _, c := range []struct {
		err  error
		want Fate
	}{
		{nil, FateUnknown}, {io.EOF, FateUnknown}, {marked, FateNotApplied}, {Settled(io.EOF), FateSettled}, {WithFate(io.EOF, FateNotApplied), FateNotApplied},
		{WithFate(marked, FateUnknown), FateNotApplied}, {WithFate(marked, FateSettled), FateSettled}, {Named(marked, ErrUnavailable), FateNotApplied},
		{Failed("s", "d", "w", marked), FateNotApplied},
	} {
		if got := FateOf(c.err); got != c.want {
			t.Errorf("%v: fate %v, want %v", c.err, got, c.want)
		}
	}
	if NotApplied(nil) != nil || Settled(nil) != nil || WithFate(nil, FateSettled) != nil {
		t.Error("nil did not stay nil")
	}
}

// TestNames: an error reads as it did, and matches what it was given.
func TestNames(t *testing.T) {
	names := make([]error, 1, 5)
	names[0] = ErrUnavailable
	first, second := Named(io.EOF, names...), Named(io.ErrUnexpectedEOF, names...)
	if first.Error() != "EOF" || !errors.Is(first, io.EOF) || !errors.Is(first, ErrUnavailable) || errors.Is(first, ErrRefused) {
		t.Error(first)
	}
	if errors.Is(first, io.ErrUnexpectedEOF) || !errors.Is(second, io.ErrUnexpectedEOF) {
		t.Error("two errors that were given one list of names share it")
	}
	for what, want := range map[string]string{
		"it broke; mend it":   "dibs: mysql:db: acquire: it broke; mend it: EOF",
		"EOF came; try again": "dibs: mysql:db: acquire: EOF came; try again",
	} {
		err := Failed("mysql:db", "acquire", what, io.EOF, ErrReadOnly, ErrUnavailable)
		if err.Error() != want || !errors.Is(err, io.EOF) || !errors.Is(err, ErrReadOnly) || !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
	}
}
