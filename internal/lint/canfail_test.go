package lint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The rules against bad trees.

func TestGoodTreeHasNoProblems(t *testing.T) {
	r := tree(t, nil)
	none(t, Walls(r))
	none(t, Modules(r))
	none(t, Lengths(r))
	none(t, Comments(r))
}

func TestWallsCanFail(t *testing.T) {
	imports := func(pkg, of string) string {
		return "// Package x is bad.\npackage " + pkg + "\n\nimport _ \"" + of + "\"\n"
	}
	for file, change := range map[string]struct{ text, problem string }{
		"x.go":                   {imports("dibs", "modernc.org/sqlite"), "the core imports the standard library and itself"},
		"x_test.go":              {imports("dibs", "github.com/dibs-go/dibs/dibssqlite"), "the core imports the standard library and itself"},
		"y.go":                   {imports("dibs", "github.com/dibs-go/dibs/internal/lint"), "github.com/dibs-go/dibs may not"},
		"dibsmem/x.go":           {imports("dibsmem", "github.com/dibs-go/dibs"), "dibsmem may not"},
		"dibsdriver/x_darwin.go": {imports("dibsdriver", "github.com/dibs-go/dibs/internal/call"), "dibsdriver may not"},
		"internal/call/x.go":     {imports("call", "github.com/dibs-go/dibs/internal/line"), "internal/call may not"},
		"internal/call/y.go":     {imports("call", "github.com/dibs-go/dibs"), "internal/call may not"},
		"internal/attic/x.go":    {imports("attic", "github.com/dibs-go/dibs/dibsdriver"), "internal/attic has no place in the house"},
		"dibssqlite/x.go":        {imports("dibssqlite", "github.com/dibs-go/dibs/internal/line"), "dibssqlite may not"},
		"dibssqlite/y.go":        {imports("dibssqlite", "github.com/dibs-go/dibs/cmd/dibs"), "dibssqlite/go.mod does not require it"},
		"dibssqlite/x_test.go":   {imports("dibssqlite", "go.uber.org/goleak"), "dibssqlite/go.mod does not require it"},
		"cmd/dibs/x.go":          {imports("main", "github.com/dibs-go/dibs/internal/line"), "cmd/dibs may not"},
	} {
		t.Run(strings.ReplaceAll(file, "/", " "), func(t *testing.T) {
			problems := Walls(tree(t, map[string]string{file: change.text}))
			some(t, problems, change.problem)
			some(t, problems, file+" imports "+strings.Split(change.text, `"`)[1]+": ")
		})
	}
}

func TestModulesCanFail(t *testing.T) {
	const head = "module github.com/dibs-go/dibs"
	for _, c := range []struct {
		name     string
		files    map[string]string
		problems []string
	}{
		{"core requires", map[string]string{"go.mod": head + "\n\ngo 1.26.0\n\nrequire go.uber.org/goleak v1.3.0\n"},
			[]string{"go.mod: requires go.uber.org/goleak: the core requires nothing"}},
		{"go version", map[string]string{"go.mod": head + "\n\ngo 1.25\n"}, []string{"go.mod: go 1.25, want 1.26.0"}},
		{"not in go.work", map[string]string{"bench/go.mod": head + "/bench\n\ngo 1.26.0\n\nrequire " + Core + " v0.1.0\n"},
			[]string{"go.work does not use ./bench"}},
		{"unknown module", map[string]string{
			"attic/go.mod": head + "/attic\n\ngo 1.26.0\n\nrequire " + Core + " v0.1.0\n",
			"go.work": "go 1.26.0\n\nuse (\n\t.\n\t./attic\n\t./cmd/dibs\n\t./dibssqlite\n)\n\nreplace " + Core + " v0.1.0 => ./\n\nreplace " +
				Core + "/dibssqlite v0.1.0 => ./dibssqlite\n",
		}, []string{"attic/go.mod: an unknown module"}},
		{"path", map[string]string{"cmd/dibs/go.mod": head + "/cmd/other\n\ngo 1.26.0\n\nrequire " + Core + " v0.1.0\n"},
			[]string{"cmd/dibs/go.mod: module " + Core + "/cmd/other, want " + Core + "/cmd/dibs", "an unknown module"}},
		{"replace", map[string]string{"cmd/dibs/go.mod": head + "/cmd/dibs\n\ngo 1.26.0\n\nrequire " + Core + " v0.1.0\n\nreplace " + Core + " => ../..\n"},
			[]string{"cmd/dibs/go.mod: replace and exclude do nothing for users"}},
		{"without the core", map[string]string{"cmd/dibs/go.mod": head + "/cmd/dibs\n\ngo 1.26.0\n"}, []string{"cmd/dibs/go.mod: does not require the core"}},
		{"version", map[string]string{"cmd/dibs/go.mod": head + "/cmd/dibs\n\ngo 1.26.0\n\nrequire " + Core + " v0.2.0\n"},
			[]string{"cmd/dibs/go.mod: requires " + Core + " v0.2.0, want v0.1.0"}},
		{"not replaced", map[string]string{"go.work": "go 1.26.0\n\nuse (\n\t.\n\t./cmd/dibs\n\t./dibssqlite\n)\n\nreplace " + Core + " v0.1.0 => ./\n"},
			[]string{"cmd/dibs/go.mod: requires " + Core + "/dibssqlite, which go.work does not replace"}},
		{"driver requires", map[string]string{"dibssqlite/go.mod": head + "/dibssqlite\n\ngo 1.26.0\n\nrequire (\n\t" + Core +
			" v0.1.0\n\tgithub.com/spf13/cobra v1.10.2\n\tgo.uber.org/goleak v1.3.0 // indirect\n)\n"},
			[]string{"requires github.com/spf13/cobra: a driver requires the core and its client library", "requires go.uber.org/goleak, a test tool"}},
		{"cycle", map[string]string{"dibssqlite/go.mod": head + "/dibssqlite\n\ngo 1.26.0\n\nrequire (\n\t" + Core + " v0.1.0\n\t" + Core + "/cmd/dibs v0.1.0\n)\n"},
			[]string{"modules require each other: ", "a driver requires the core and its client library", "which go.work does not replace"}},
	} {
		t.Run(c.name, func(t *testing.T) { some(t, Modules(tree(t, c.files)), c.problems...) })
	}
}

func TestLengthsCanFail(t *testing.T) {
	good, bad := strings.Repeat("\n", maxLines-1), strings.Repeat("\n", maxLines)
	none(t, Lengths(tree(t, map[string]string{"x.go": "package dibs" + good})))
	some(t, Lengths(tree(t, map[string]string{"x_test.go": "package dibs" + bad + "var x int\n"})), "x_test.go has 401 lines")
}

func TestCommentsCanFail(t *testing.T) {
	r := tree(t, map[string]string{
		"x.go": `package dibs

func F() {}

type T[P any] struct{ A int }

func (t *T[P]) M() {}

func (t *T[P]) m() {}

func (t *T[P]) Error() string { return "" }

type hidden struct{ A int }

func (hidden) M() {}

const K, k = 1, 2

// These have one.
var (
	V = 1
	W = 2
)

// XConfig has one.
type XConfig struct {
	// A has one.
	A int
	B int
	c int
}

// One has one.
type One interface{ Do() }

// Two has one.
type Two interface {
	// Do has one.
	Do()
	Undo()
}
`,
		"dibsmem/m.go": "package dibsmem\n",
		"x_test.go":    "package dibs\n\nfunc TestX() {}\n",
	})
	some(t, Comments(r), "x.go:3: F has no comment", "x.go:5: T has no comment", "x.go:7: M has no comment", "x.go:17: K has no comment",
		"x.go:29: B has no comment", "x.go:40: Undo has no comment", "package "+Core+"/dibsmem has no comment")
}

func TestPublicAPICanFail(t *testing.T) {
	r := tree(t, nil)
	problems := func() []string {
		t.Helper()
		p, err := CompareAPI(r)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	some(t, problems(), "docs/api/dibs.txt is missing", "docs/api/dibsdriver.txt is missing", "docs/api/dibssqlite.txt is missing")
	if err := WriteAPI(r); err != nil {
		t.Fatal(err)
	}
	none(t, problems())

	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(r.Root, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("dibssqlite/x.go", "package dibssqlite\n\n// New is new.\nfunc New() {}\n")
	write("docs/api/gone.txt", "package gone\n")
	some(t, problems(), "+ FUNCTIONS", "docs/api/gone.txt is of no public package")
	if err := WriteAPI(r); err != nil {
		t.Fatal(err)
	}
	none(t, problems())
}

func TestBuildsCanFail(t *testing.T) {
	r := tree(t, map[string]string{
		"go.work":           "go 1.26.0\n\nuse .\n",
		"dibs.go":           "// Package dibs is good.\npackage dibs\n",
		"dibs_windows.go":   "package dibs\n\nvar _ = undefinedName\n",
		"dibssqlite/go.mod": "", "dibssqlite/s.go": "", "cmd/dibs/go.mod": "", "cmd/dibs/main.go": "", "internal/line/l.go": "", "internal/call/c.go": "",
		"dibsdriver/d.go": "",
	})
	if err := Builds(r.Root, "linux"); err != nil {
		t.Error(err)
	}
	if err := Builds(r.Root, "windows"); err == nil || !strings.Contains(err.Error(), "undefinedName") {
		t.Errorf("a tree that does not build for windows: %v", err)
	}
}
