package lint

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// public reports whether users may import the package of a file.
func public(f *File) bool {
	top, _, _ := strings.Cut(name(f.Package), "/")
	return f.AST.Name.Name != "main" && !slices.Contains(strings.Split(f.Package, "/"), "internal") &&
		top != "cmd" && top != "examples" && top != "bench"
}

// apiFile is where the public API of a package is kept: docs/api/dibs.txt, docs/api/dibssqlite.txt.
func apiFile(importPath string) string {
	base := strings.ReplaceAll(name(importPath), "/", "-")
	if base == "" {
		base = path.Base(Core)
	}
	return path.Join("docs/api", base+".txt")
}

// API returns what go doc -all says of each public package, by the name of the file that keeps it.
func API(r *Repo) (map[string]string, error) {
	api := make(map[string]string)
	for _, f := range r.Files {
		file := apiFile(f.Package)
		if f.Test || !public(f) || api[file] != "" {
			continue
		}
		cmd := exec.Command("go", "doc", "-all", ".")
		cmd.Dir = filepath.Join(r.Root, filepath.FromSlash(path.Dir(f.Path)))
		out, err := cmd.CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("go doc -all of %s: %w: %s", f.Package, err, out)
		}
		api[file] = string(out)
	}
	return api, nil
}

// CompareAPI finds packages whose API is not the one that is kept.
func CompareAPI(r *Repo) (problems []string, err error) {
	api, err := API(r)
	if err != nil {
		return nil, err
	}
	kept, err := filepath.Glob(filepath.Join(r.Root, "docs", "api", "*.txt"))
	if err != nil {
		return nil, err
	}
	for _, k := range kept {
		if file := path.Join("docs/api", filepath.Base(k)); api[file] == "" {
			problems = append(problems, file+" is of no public package")
		}
	}
	for file, now := range api {
		old, err := os.ReadFile(filepath.Join(r.Root, filepath.FromSlash(file)))
		switch {
		case os.IsNotExist(err):
			problems = append(problems, file+" is missing")
		case err != nil:
			return nil, err
		case string(old) != now:
			problems = append(problems, fmt.Sprintf("%s is not the API of today; from its first line that changed:\n%s", file, firstChange(string(old), now)))
		}
	}
	slices.Sort(problems)
	return problems, nil
}

// firstChange shows where two texts begin to differ.
func firstChange(old, now string) string {
	a, b := strings.Split(old, "\n"), strings.Split(now, "\n")
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	line := func(lines []string) string {
		if i < len(lines) {
			return lines[i]
		}
		return "(the end)"
	}
	return fmt.Sprintf("  %d: - %s\n  %d: + %s", i+1, line(a), i+1, line(b))
}

// WriteAPI keeps the API of today.
func WriteAPI(r *Repo) error {
	api, err := API(r)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.Root, "docs", "api")
	kept, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return err
	}
	for _, k := range kept {
		if err := os.Remove(k); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for file, now := range api {
		if err := os.WriteFile(filepath.Join(r.Root, filepath.FromSlash(file)), []byte(now), 0o644); err != nil {
			return err
		}
	}
	return nil
}
