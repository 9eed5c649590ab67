// Package storeurl finds out which store a command is to use, and opens it.
package storeurl

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/dibs-go/dibs/cmd/dibs/internal/exit"
	"github.com/dibs-go/dibs/dibsdriver"
)

// Store is a store that was named but not yet spoken to.
type Store struct {
	// Name is its URL without a password, for people to read.
	Name string
	// From is where the URL was found: "--store", "DIBS_STORE", a file's name. Empty for the default.
	From string
	// Default tells that nobody named a store: it is a file of this user on this machine.
	Default bool
	// Password tells that the URL has a password.
	Password bool

	kind    kind
	address string
	// folder is to be made before opening; empty if none is.
	folder string
	inFile bool // the URL stands in a file
}

// schemeDSN stands for an address in the form of go-sql-driver, which has no scheme: user:password@tcp(host:port)/db.
const schemeDSN = "\x00dsn"

var dsn = regexp.MustCompile(`(?s)^([^/]*@)?[a-z0-9]*\([^)]*\)/`)

// Parse reads a store's URL. Its errors never show a password.
func Parse(raw, from string) (*Store, error) {
	scheme, address, ok := strings.Cut(raw, ":")
	scheme = strings.ToLower(scheme)
	if dsn.MatchString(raw) {
		scheme, address, ok = schemeDSN, raw, true
	}
	i := slices.IndexFunc(kinds, func(k kind) bool { return slices.Contains(k.schemes, scheme) })
	if !ok || i < 0 {
		// What it is nobody knows, so it is not shown: it may be a password.
		return nil, exit.Errorf(exit.Usage, "%s does not name a store: write sqlite:PATH, or a URL that begins with one of %s", from, known())
	}
	s := &Store{From: from, kind: kinds[i], address: address}
	if s.kind.name == "sqlite" {
		s.Name = "sqlite:" + address
	} else {
		s.Name, s.Password = redact(raw)
	}
	if s.kind.open == nil {
		return nil, exit.Errorf(exit.Usage, "this dibs has no driver for %s yet (%s, from %s)", s.kind.name, s.Name, from)
	}
	return s, nil
}

func known() string {
	var all []string
	for _, k := range kinds {
		for _, s := range k.schemes {
			if s != schemeDSN {
				all = append(all, s+":")
			}
		}
	}
	return strings.Join(all, " ")
}

// checkSQLite finds the paths that would be another file than the one that was meant.
func checkSQLite(s *Store) error {
	path := s.address
	switch {
	case path == "":
		return exit.Errorf(exit.Usage, "%s names no file: write sqlite:/path/to/file", s.From)
	case strings.HasPrefix(path, "//") && !strings.HasPrefix(path, "///"):
		return exit.Errorf(exit.Usage, "%s (from %s) has a host, and SQLite has none: write sqlite:/path/to/file", s.Name, s.From)
	case strings.HasPrefix(path, "~"):
		return exit.Errorf(exit.Usage, "%s (from %s): ~ stands for nothing here: write the whole path", s.Name, s.From)
	case s.inFile && !filepath.IsAbs(path):
		return exit.Errorf(exit.Usage, "%s (from %s): in a file the path must begin with /, or each folder would have locks of its own", s.Name, s.From)
	}
	return nil
}

// Open makes the driver. It speaks to the store as little as the driver's own constructor does.
func (s *Store) Open() (dibsdriver.Driver, error) {
	if s.folder != "" {
		if err := os.MkdirAll(s.folder, 0o700); err != nil {
			return nil, exit.Errorf(exit.Unavailable, "the folder for %s cannot be made: %w; name another store by --store", s.Name, err)
		}
	}
	d, err := s.kind.open(s.address)
	if err != nil {
		return nil, exit.With(exit.Unavailable, fmt.Errorf("%s: %w", s.Name, err))
	}
	return d, nil
}

// Schema is the DDL of the store's tables; empty if it has none.
func (s *Store) Schema() string {
	if s.kind.schema == nil {
		return ""
	}
	return s.kind.schema()
}
