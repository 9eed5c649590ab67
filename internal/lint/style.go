package lint

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// Lengths finds files that are too long to hold one idea.
func Lengths(r *Repo) (problems []string) {
	for _, f := range r.Files {
		if f.Lines > maxLines && longFiles[f.Path] == "" {
			problems = append(problems, fmt.Sprintf("%s has %d lines, more than %d: divide it, or say in internal/lint/house.go why not",
				f.Path, f.Lines, maxLines))
		}
	}
	return problems
}

// Comments finds exported names without a comment, and packages without one. What everybody knows needs none (Error, Unwrap, String), nor do the
// fields of a struct, but for those of a Config, which name their defaults. One comment for a group of constants or variables will do.
func Comments(r *Repo) (problems []string) {
	documented := make(map[string]bool) // packages
	var packages []string
	for _, f := range r.Files {
		if f.Test {
			continue
		}
		if !slices.Contains(packages, f.Package) {
			packages = append(packages, f.Package)
		}
		documented[f.Package] = documented[f.Package] || f.AST.Doc != nil
		for _, d := range f.AST.Decls {
			for _, n := range undocumented(d) {
				problems = append(problems, fmt.Sprintf("%s: %s has no comment", r.at(n.Pos()), n.Name))
			}
		}
	}
	for _, p := range packages {
		if !documented[p] {
			problems = append(problems, fmt.Sprintf("package %s has no comment", p))
		}
	}
	return problems
}

// known are methods that need no comment.
var known = []string{"Error", "Unwrap", "String"}

func undocumented(d ast.Decl) (names []*ast.Ident) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		method := d.Recv != nil
		if d.Doc != nil || method && (!ast.IsExported(receiver(d)) || slices.Contains(known, d.Name.Name)) {
			return nil
		}
		return exported([]*ast.Ident{d.Name})
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				if d.Doc == nil && s.Doc == nil && s.Comment == nil {
					names = append(names, exported(s.Names)...)
				}
			case *ast.TypeSpec:
				if d.Doc == nil && s.Doc == nil && s.Comment == nil {
					names = append(names, exported([]*ast.Ident{s.Name})...)
				}
				names = append(names, members(s)...)
			}
		}
	}
	return names
}

// receiver is the name of the type that a method belongs to.
func receiver(d *ast.FuncDecl) string {
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// members finds what needs a comment within a type: the fields of a Config, and the methods of an interface that has several.
func members(s *ast.TypeSpec) (names []*ast.Ident) {
	var list []*ast.Field
	switch t := s.Type.(type) {
	case *ast.StructType:
		if strings.HasSuffix(s.Name.Name, "Config") && s.Name.IsExported() {
			list = t.Fields.List
		}
	case *ast.InterfaceType:
		if len(t.Methods.List) > 1 && s.Name.IsExported() {
			list = t.Methods.List
		}
	}
	for _, f := range list {
		if f.Doc == nil && f.Comment == nil {
			names = append(names, exported(f.Names)...)
		}
	}
	return names
}

func exported(idents []*ast.Ident) (names []*ast.Ident) {
	for _, n := range idents {
		if n.IsExported() {
			names = append(names, n)
		}
	}
	return names
}
