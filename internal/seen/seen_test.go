package seen

import (
	"fmt"
	"testing"
)

func TestFloorIsTheHighestNoted(t *testing.T) {
	s := New(10)
	if s.Floor("a") != 0 {
		t.Error("a token from nowhere")
	}
	s.Note("a", 5)
	s.Note("a", 3) // a store that forgot
	s.Note("b", 9)
	if s.Floor("a") != 5 || s.Floor("b") != 9 || s.Floor("c") != 0 {
		t.Error(s.Floor("a"), s.Floor("b"), s.Floor("c"))
	}
	s.Note("a", 7)
	if s.Floor("a") != 7 {
		t.Error(s.Floor("a"))
	}
}

func TestForgottenKeysKeepAFloor(t *testing.T) {
	s := New(3)
	s.Note("old", 100)
	s.Note("older", 50)
	s.Note("a", 1)
	s.Note("old", 100) // seen again, so "older" goes first
	s.Note("b", 2)
	if s.Floor("old") != 100 || s.Floor("older") != 50 || s.Floor("never") != 50 || s.Floor("a") != 1 {
		t.Error(s.Floor("old"), s.Floor("older"), s.Floor("never"), s.Floor("a"))
	}
	s.Note("c", 3) // "a" goes
	if s.Floor("a") != 50 || s.Floor("c") != 50 {
		t.Error(s.Floor("a"), s.Floor("c"))
	}
	for i := range 1000 {
		s.Note(fmt.Sprint("k", i), int64(i))
	}
	if len(s.keys) != 3 || s.recent.Len() != 3 {
		t.Errorf("keeps %d keys, %d entries", len(s.keys), s.recent.Len())
	}
	if s.Floor("old") < 100 {
		t.Error("a floor fell")
	}
}
