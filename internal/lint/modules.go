package lint

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	goVersion  = "1.26.0" // not 1.26: a module has to name the patch where one that it requires does
	unreleased = "v0.1.0" // what the modules require of each other until there is a release
)

// Modules finds go.mod files, and a go.work, that are not as they should be.
func Modules(r *Repo) (problems []string) {
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if r.Work.Go != goVersion {
		problem("go.work: go %s, want %s", r.Work.Go, goVersion)
	}
	for _, m := range r.Modules {
		file := path.Join(m.Dir, "go.mod")
		if m.Go != goVersion {
			problem("%s: go %s, want %s", file, m.Go, goVersion)
		}
		if len(m.Replace) > 0 || len(m.Exclude) > 0 {
			problem("%s: replace and exclude do nothing for users: put a replace into go.work (make tidy does without)", file)
		}
		if want := path.Join(Core, m.Dir); m.Module.Path != want {
			problem("%s: module %s, want %s", file, m.Module.Path, want)
		}
		if !slices.ContainsFunc(r.Work.Use, func(u struct{ DiskPath string }) bool { return path.Clean(filepath.ToSlash(u.DiskPath)) == m.Dir }) {
			problem("go.work does not use ./%s", m.Dir)
		}
		problems = append(problems, r.requirements(m, file)...)
	}
	return append(problems, r.moduleCycles()...)
}

// requirements finds what is wrong with what a module requires.
func (r *Repo) requirements(m *Module, file string) (problems []string) {
	problem := func(format string, args ...any) {
		problems = append(problems, file+": "+fmt.Sprintf(format, args...))
	}
	clients, isDriver := drivers[m.Name()]
	if !isDriver && !slices.Contains(others, m.Name()) {
		problem("an unknown module: give it a place in internal/lint/house.go")
	}
	if m.Name() == "" {
		for _, q := range m.Require {
			problem("requires %s: the core requires nothing", q.Path)
		}
		return problems
	}
	if !slices.ContainsFunc(m.Require, func(q Require) bool { return q.Path == Core }) {
		problem("does not require the core")
	}
	for _, q := range m.Require {
		own := within(q.Path, Core)
		if own {
			if q.Version != unreleased {
				problem("requires %s %s, want %s", q.Path, q.Version, unreleased)
			}
			if !r.replaced(q.Path) {
				problem("requires %s, which go.work does not replace: add %s %s => ./%s", q.Path, q.Path, unreleased, name(q.Path))
			}
		}
		if !isDriver {
			continue
		}
		if q.Path != Core && !q.Indirect && !slices.Contains(clients, q.Path) {
			problem("requires %s: a driver requires the core and its client library (see internal/lint/house.go)", q.Path)
		}
		if slices.Contains(testTools, q.Path) {
			problem("requires %s, a test tool: tests that need one go into dibsdrivertest", q.Path)
		}
	}
	return problems
}

// replaced reports whether go.work replaces a module by its folder.
func (r *Repo) replaced(modulePath string) bool {
	return slices.ContainsFunc(r.Work.Replace, func(p Replace) bool {
		return p.Old.Path == modulePath && p.Old.Version == unreleased &&
			path.Clean(filepath.ToSlash(p.New.Path)) == path.Join(".", name(modulePath))
	})
}

// moduleCycles finds modules that require each other. The go command bears that; a release in order does not.
func (r *Repo) moduleCycles() (problems []string) {
	const under, done = 1, 2
	state := make(map[string]int)
	var visit func(m *Module, trail []string)
	visit = func(m *Module, trail []string) {
		trail = append(trail, m.Module.Path)
		state[m.Module.Path] = under
		for _, q := range m.Require {
			next := r.module(name(q.Path))
			switch {
			case !within(q.Path, Core) || next == nil:
			case state[q.Path] == under:
				problems = append(problems, "modules require each other: "+strings.Join(append(trail[slices.Index(trail, q.Path):], q.Path), " -> "))
			case state[q.Path] != done:
				visit(next, trail)
			}
		}
		state[m.Module.Path] = done
	}
	for _, m := range r.Modules {
		if state[m.Module.Path] == 0 {
			visit(m, nil)
		}
	}
	return problems
}
