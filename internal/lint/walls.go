package lint

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Walls finds imports that go against the arrows: cmd -> drivers -> dibs -> the engine's rooms -> dibsdriver.
func Walls(r *Repo) (problems []string) {
	for _, f := range r.Files {
		for _, imp := range f.Imports {
			if std(imp) {
				continue
			}
			if why := r.wall(f, imp); why != "" {
				problems = append(problems, fmt.Sprintf("%s imports %s: %s", f.Path, imp, why))
			}
		}
	}
	return problems
}

// wall says what is wrong with an import that is not of the standard library, or "".
func (r *Repo) wall(f *File, imp string) string {
	to := r.moduleOf(imp)
	if to == f.Module && (f.Test || to.Name() != "") {
		return "" // within a module
	}
	// go.work lets any module import any other without a word in its go.mod.
	if to != f.Module && !f.Module.requires(imp, to) {
		if f.Module.Name() == "" {
			return "the core imports the standard library and itself, and nothing else"
		}
		return fmt.Sprintf("%s/go.mod does not require it", f.Module.Dir)
	}
	if to == nil {
		return ""
	}
	allowed, known := mayImport(f.Package)
	if !known {
		return fmt.Sprintf("%s has no place in the house: give it one in internal/lint/house.go", f.Package)
	}
	pkg := name(imp)
	if f.Test && slices.ContainsFunc(aides, func(a string) bool { return pkg == "internal/"+a }) {
		return ""
	}
	if !allowed(pkg) {
		return fmt.Sprintf("a wall is there (see internal/lint/house.go): %s may not", f.Package)
	}
	return ""
}

func (m *Module) requires(imp string, own *Module) bool {
	return slices.ContainsFunc(m.Require, func(q Require) bool {
		if own != nil {
			return q.Path == own.Module.Path
		}
		return within(imp, q.Path)
	})
}

// mayImport returns which packages of the repository a package may import, by their names.
func mayImport(importPath string) (allowed func(string) bool, known bool) {
	only := func(lists ...[]string) (func(string) bool, bool) {
		all := slices.Concat(lists...)
		return func(pkg string) bool { return slices.Contains(all, pkg) }, true
	}
	contract, public := []string{"dibsdriver"}, []string{"", "dibsdriver", "dibsmem"}
	pkg := name(importPath)
	top, _, _ := strings.Cut(pkg, "/")
	switch {
	case pkg == "dibsdriver":
		return only()
	case pkg == "dibsmem":
		return only(contract)
	case pkg == "":
		return only(contract, internal(rooms), internal(forDrivers))
	case top == "internal":
		room := strings.TrimPrefix(pkg, "internal/")
		if i := slices.Index(rooms, room); i >= 0 {
			return only(contract, internal(rooms[:i]))
		}
		if slices.Contains(forDrivers, room) {
			return only(contract, internal(rooms))
		}
		if slices.Contains(aides, room) {
			return only(public, internal(rooms))
		}
	case drivers[top] != nil:
		return only(contract, []string{""}, internal(forDrivers))
	case top == "cmd" || top == "examples":
		return only(public, driverNames())
	case top == "dibsdrivertest" || top == "bench":
		return only(public, driverNames(), internal([]string{"testenv"}))
	}
	return nil, false
}

func internal(names []string) (paths []string) {
	for _, n := range names {
		paths = append(paths, path.Join("internal", n))
	}
	return paths
}

func driverNames() (names []string) {
	for n := range drivers {
		names = append(names, n)
	}
	return names
}
