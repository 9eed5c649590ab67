package exit

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestStatus(t *testing.T) {
	base := errors.New("x")
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0}, {base, Usage}, {Errorf(Lost, "y"), Lost}, {fmt.Errorf("z: %w", Errorf(Busy, "y")), Busy},
		{With(Unavailable, base), Unavailable}, {With(Unavailable, Errorf(Busy, "y")), Busy}, {With(Unavailable, nil), 0},
	} {
		if got := Status(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
	if !errors.Is(With(Lost, base), base) || Silent(base) || !Silent(fmt.Errorf("z: %w", &Error{Err: base, Silent: true})) {
		t.Error("an error has lost something")
	}
}

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"x":                            "dibs: x",
		"dibs: x":                      "dibs: x",
		`"k": dibs: store unavailable`: `dibs: "k": store unavailable`,
		"a\nb":                         "dibs: a; b",
		"a\x1b[31m\r\x00":              `dibs: a\x1b[31m\r\x00`,
		"a\xffb\u202e\ufffd":           `dibs: a\xffb\u202e` + "\ufffd",
		"\xef":                         `dibs: \xef`,
		"Grüße, 世界":                    "dibs: Grüße, 世界",
	} {
		if got := Line(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b[31m")
	f.Fuzz(func(t *testing.T, s string) {
		got := Printable(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) && r != utf8.RuneError }) {
			t.Errorf("%q: %q", s, got)
		}
	})
}
