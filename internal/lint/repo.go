package lint

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Core is the path of the module at the root.
const Core = "github.com/dibs-go/dibs"

// Repo is a tree of modules joined by a go.work file.
type Repo struct {
	Root    string
	Work    Work
	Modules []*Module
	Files   []*File
	Fset    *token.FileSet
}

// Work is what go work edit -json prints, as far as it matters.
type Work struct {
	Go      string
	Use     []struct{ DiskPath string }
	Replace []Replace
}

// Replace is a replace directive.
type Replace struct {
	Old, New struct{ Path, Version string }
}

// Module is what go mod edit -json prints, as far as it matters.
type Module struct {
	Dir     string `json:"-"` // relative to the root, with slashes
	Module  struct{ Path string }
	Go      string
	Require []Require
	Exclude []json.RawMessage
	Replace []Replace
}

// Require is one requirement of a module.
type Require struct {
	Path, Version string
	Indirect      bool
}

// Name is the module's path without that of the core: "" for the core itself.
func (m *Module) Name() string { return name(m.Module.Path) }

// File is a Go file, whatever system it is built for.
type File struct {
	Path    string // relative to the root, with slashes
	Module  *Module
	Package string // the import path of its folder
	Test    bool
	Lines   int
	Imports []string
	AST     *ast.File
}

// name shortens an import path of this repository.
func name(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, Core), "/")
}

// Load reads the tree at root.
func Load(root string) (*Repo, error) {
	r := &Repo{Root: root, Fset: token.NewFileSet()}
	if err := edit(&r.Work, root, "work", "edit", "-json"); err != nil {
		return nil, err
	}
	var sources []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); p != root && (strings.HasPrefix(n, ".") || strings.HasPrefix(n, "_") || n == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.Name() == "go.mod" {
			m := &Module{Dir: path.Dir(rel)}
			r.Modules = append(r.Modules, m)
			return edit(m, filepath.Dir(p), "mod", "edit", "-json")
		}
		if strings.HasSuffix(rel, ".go") {
			sources = append(sources, rel)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, rel := range sources {
		f, err := r.parse(rel)
		if err != nil {
			return nil, err
		}
		r.Files = append(r.Files, f)
	}
	return r, nil
}

func edit(into any, dir string, args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := err.(*exec.ExitError); ok {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return fmt.Errorf("go %s in %s: %w", strings.Join(args, " "), dir, err)
	}
	return json.Unmarshal(out, into)
}

func (r *Repo) parse(rel string) (*File, error) {
	f := &File{Path: rel, Test: strings.HasSuffix(rel, "_test.go")}
	for _, m := range r.Modules { // the innermost
		if (m.Dir == "." || strings.HasPrefix(rel, m.Dir+"/")) && (f.Module == nil || len(m.Dir) > len(f.Module.Dir) || f.Module.Dir == ".") {
			f.Module = m
		}
	}
	if f.Module == nil {
		return nil, fmt.Errorf("%s belongs to no module", rel)
	}
	inModule := path.Dir(rel)
	if f.Module.Dir != "." {
		inModule = strings.TrimPrefix(strings.TrimPrefix(inModule, f.Module.Dir), "/")
	}
	f.Package = path.Join(f.Module.Module.Path, inModule)
	parsed, err := parser.ParseFile(r.Fset, filepath.Join(r.Root, filepath.FromSlash(rel)), nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f.AST = parsed
	f.Lines = r.Fset.File(parsed.FileStart).LineCount()
	for _, spec := range parsed.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", rel, err)
		}
		f.Imports = append(f.Imports, p)
	}
	return f, nil
}

// at names a place in the tree.
func (r *Repo) at(pos token.Pos) string {
	p := r.Fset.Position(pos)
	rel, err := filepath.Rel(r.Root, p.Filename)
	if err != nil {
		rel = p.Filename
	}
	return fmt.Sprintf("%s:%d", filepath.ToSlash(rel), p.Line)
}

// moduleOf finds the module of the repository that an import path belongs to, or nil: the longest that fits, since the core's path begins
// all of them.
func (r *Repo) moduleOf(importPath string) *Module {
	var best *Module
	for _, m := range r.Modules {
		if within(importPath, m.Module.Path) && (best == nil || len(m.Module.Path) > len(best.Module.Path)) {
			best = m
		}
	}
	return best
}

// module finds a module by its name.
func (r *Repo) module(name string) *Module {
	i := slices.IndexFunc(r.Modules, func(m *Module) bool { return m.Name() == name })
	if i < 0 {
		return nil
	}
	return r.Modules[i]
}

func within(importPath, parent string) bool {
	return importPath == parent || strings.HasPrefix(importPath, parent+"/")
}

// std reports whether an import is of the standard library: the first element of all others has a dot.
func std(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}
