package lint

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the public API anew to docs/api (make api)")

// here loads this repository.
func here(t *testing.T) *Repo {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return load(t, root)
}

func load(t *testing.T, root string) *Repo {
	t.Helper()
	r, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tree writes the files of a repository that is good, but for what is in changes, and loads it. An empty change removes the file.
func tree(t *testing.T, changes map[string]string) *Repo {
	t.Helper()
	files := map[string]string{
		"go.work": "go 1.26.0\n\nuse (\n\t.\n\t./dibssqlite\n\t./cmd/dibs\n)\n\nreplace (\n\tgithub.com/dibs-go/dibs v0.1.0 => ./\n" +
			"\tgithub.com/dibs-go/dibs/dibssqlite v0.1.0 => ./dibssqlite\n)\n",
		"go.mod":                "module github.com/dibs-go/dibs\n\ngo 1.26.0\n",
		"dibs.go":               "// Package dibs is good.\npackage dibs\n\nimport _ \"github.com/dibs-go/dibs/internal/line\"\n",
		"dibsdriver/d.go":       "// Package dibsdriver is good.\npackage dibsdriver\n\nimport _ \"context\"\n",
		"internal/call/c.go":    "// Package call is good.\npackage call\n\nimport _ \"github.com/dibs-go/dibs/dibsdriver\"\n",
		"internal/line/l.go":    "// Package line is good.\npackage line\n\nimport _ \"github.com/dibs-go/dibs/internal/call\"\n",
		"dibssqlite/go.mod":     "module github.com/dibs-go/dibs/dibssqlite\n\ngo 1.26.0\n\nrequire (\n\tgithub.com/dibs-go/dibs v0.1.0\n\tmodernc.org/sqlite v1.0.0\n)\n",
		"dibssqlite/s.go":       "// Package dibssqlite is good.\npackage dibssqlite\n\nimport _ \"github.com/dibs-go/dibs\"\n",
		"cmd/dibs/go.mod":       "module github.com/dibs-go/dibs/cmd/dibs\n\ngo 1.26.0\n\nrequire (\n\tgithub.com/dibs-go/dibs v0.1.0\n\tgithub.com/dibs-go/dibs/dibssqlite v0.1.0\n)\n",
		"cmd/dibs/main.go":      "// Command dibs is good.\npackage main\n\nimport _ \"github.com/dibs-go/dibs/dibssqlite\"\n\nfunc main() {}\n",
		"testdata/ignored/x.go": "no Go",
	}
	for name, text := range changes {
		files[name] = text
	}
	root := t.TempDir()
	for name, text := range files {
		if text == "" {
			continue
		}
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return load(t, root)
}

func none(t *testing.T, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}

// some holds the problems that a bad tree has against what they should say: each part in one of its own.
func some(t *testing.T, problems []string, parts ...string) {
	t.Helper()
	if len(problems) != len(parts) {
		t.Errorf("%d problems, want %d", len(problems), len(parts))
	}
	all := strings.Join(problems, "\n")
	for _, p := range parts {
		if !strings.Contains(all, p) {
			t.Errorf("no problem says %q", p)
		}
	}
	if t.Failed() {
		t.Logf("problems:\n%s", all)
	}
}

func TestWalls(t *testing.T)    { none(t, Walls(here(t))) }
func TestModules(t *testing.T)  { none(t, Modules(here(t))) }
func TestLengths(t *testing.T)  { none(t, Lengths(here(t))) }
func TestComments(t *testing.T) { none(t, Comments(here(t))) }

func TestPublicAPI(t *testing.T) {
	r := here(t)
	if *update {
		if err := WriteAPI(r); err != nil {
			t.Fatal(err)
		}
	}
	problems, err := CompareAPI(r)
	if err != nil {
		t.Fatal(err)
	}
	none(t, problems)
	if len(problems) > 0 {
		t.Error("if the public API was meant to change, run make api, look at what it changed, and commit that beside the code")
	}
}

func TestBuilds(t *testing.T) {
	for _, system := range systems {
		t.Run(system, func(t *testing.T) {
			if err := Builds("../..", system); err != nil {
				t.Error(err)
			}
		})
	}
}
