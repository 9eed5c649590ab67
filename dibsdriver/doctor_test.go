package dibsdriver

import (
	"errors"
	"slices"
	"testing"
)

func TestFindings(t *testing.T) {
	var f Findings
	f.OK("clock", "%d s", 1)
	for range 2 { // asked about twice, found once
		f.Warn("disk", "buy another", "%s", "full")
	}
	f.Fault("disk", "buy another", "full")
	want := []Finding{{"clock", LevelOK, "1 s", ""}, {"disk", LevelWarning, "full", "buy another"}, {"disk", LevelFault, "full", "buy another"}}
	if !slices.Equal(f, want) {
		t.Errorf("%+v", f)
	}
}

func TestSplit(t *testing.T) {
	for _, c := range []struct{ text, what, found, advice string }{
		{"dibs: db: examine: no answer", "", "no answer", ""},
		{"dibs: db: dibs: no answer; wait", "", "no answer", "wait"},
		{"dibs: db: it is full; delete something: error 7", "it is full; delete something", "it is full (error 7)", "delete something"},
		{"dibs: examine: db: no answer", "something else", "db: no answer", ""}, // in another order it is no name
	} {
		if found, advice := Split(errors.New(c.text), c.what, "db", "examine"); found != c.found || advice != c.advice {
			t.Errorf("%s: %q, %q", c.text, found, advice)
		}
	}
}
