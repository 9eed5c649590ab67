// Package storeurl finds out which store a command is to use, and opens it.
package storeurl

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"

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
	scheme  string
	address string // what comes after "SCHEME:"
	target  target
	// folder is to be made before opening; empty if none is.
	folder string
	inFile bool // the URL stands in a file
}

// Parse reads a store's URL, found in a file or elsewhere. Its errors never show a password.
func Parse(raw, from string, inFile bool) (*Store, error) {
	if strings.ContainsFunc(raw, unicode.IsControl) {
		return nil, exit.Errorf(exit.Usage, "%s has a control character within the store's URL (a line break, or one of a file with other line ends?): take it out", from)
	}
	scheme, address := split(raw)
	i := slices.IndexFunc(kinds, func(k kind) bool { return slices.Contains(k.schemes, scheme) })
	if i < 0 {
		// What it is nobody knows, so it is not shown: it may be a password.
		return nil, exit.Errorf(exit.Usage, "%s does not name a store: write sqlite:PATH, or a URL that begins with one of %s", from, known())
	}
	s := &Store{From: from, kind: kinds[i], scheme: scheme, address: address, inFile: inFile}
	if s.kind.name == "sqlite" {
		s.Name = "sqlite:" + address
	} else {
		s.Name, s.Password = redact(raw)
	}
	if s.kind.read == nil {
		return nil, exit.Errorf(exit.Usage, "this dibs has no driver for %s yet (%s, from %s)", s.kind.name, s.Name, from)
	}
	t, err := s.kind.read(s)
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	s.target = t
	return s, nil
}

// split returns the scheme and what comes after it; the scheme is empty if there is none.
func split(raw string) (scheme, address string) {
	scheme, address, ok := strings.Cut(raw, ":")
	scheme = strings.ToLower(scheme)
	switch isURL := ok && strings.HasPrefix(address, "//"); {
	case ok && scheme == "sqlite", isURL && !strings.ContainsAny(scheme, "/@("):
		return scheme, address
	case isDSN(raw): // which may have a user of any name, also that of a scheme
		return schemeDSN, raw
	case ok && scheme != schemeDSN:
		return scheme, address
	}
	return "", raw
}

// known are the schemes that this dibs has drivers for.
func known() string {
	var all []string
	for _, k := range kinds {
		for _, s := range k.schemes {
			if s != schemeDSN && k.read != nil {
				all = append(all, s+":")
			}
		}
	}
	return strings.Join(all, " ")
}

// Open makes the driver. It speaks to the store as little as the driver's own constructor does.
func (s *Store) Open() (dibsdriver.Driver, error) {
	if s.folder != "" {
		if err := os.MkdirAll(s.folder, 0o700); err != nil {
			return nil, exit.Errorf(exit.Unavailable, "the folder for %s cannot be made: %w; name another store by --store", s.Name, err)
		}
	}
	d, err := s.target.open()
	if err != nil {
		if !s.NamedIn(err.Error()) {
			err = fmt.Errorf("%s: %w", s.Name, err)
		}
		return nil, exit.With(exit.Unavailable, err)
	}
	return d, nil
}

// NamedIn tells whether text says which store it is about.
func (s *Store) NamedIn(text string) bool {
	return strings.Contains(text, s.Name) || strings.Contains(text, s.target.called)
}

// WithoutName is a text of the driver without the store's name before it.
func (s *Store) WithoutName(text string) string {
	return strings.TrimPrefix(strings.TrimPrefix(text, s.Name+": "), s.target.called+": ")
}

// Schema is the DDL of the store's tables; empty if it has none.
func (s *Store) Schema() string { return s.target.schema }

// Words is what a user of the command should read where the driver has said text.
func (s *Store) Words(text string) string {
	if s.target.words == nil {
		return text
	}
	return s.target.words.Replace(text)
}
