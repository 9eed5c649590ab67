package storeurl

import (
	"path/filepath"
	"strings"

	"github.com/dibs-go/dibs/cmd/dibs/internal/exit"
	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/dibssqlite"
)

// readSQLite finds the paths that would be another file than the one that was meant.
func readSQLite(s *Store) (target, error) {
	path := s.address
	file, options, _ := strings.Cut(path, "?")
	switch {
	case strings.Contains(options, "="):
		s.Name = "sqlite:" + file // what is left out may be a password
		return target{}, exit.Errorf(exit.Usage, "%s (from %s) has options behind a question mark, and there are none for SQLite, nor user or password: write sqlite:/path/to/file", s.Name, s.From)
	case path == ":memory:", strings.HasPrefix(path, "file::memory:"):
		return target{}, exit.Errorf(exit.Usage, "%s (from %s) is no file's path, and a database in memory would be gone with this command: write sqlite:/path/to/file", s.Name, s.From)
	case path == "":
		return target{}, exit.Errorf(exit.Usage, "%s names no file: write sqlite:/path/to/file", s.From)
	case strings.HasPrefix(path, "//") && !strings.HasPrefix(path, "///"):
		return target{}, exit.Errorf(exit.Usage, "%s (from %s) has a host, and SQLite has none: write sqlite:/path/to/file", s.Name, s.From)
	case strings.HasPrefix(path, "~"):
		return target{}, exit.Errorf(exit.Usage, "%s (from %s): ~ stands for nothing here: write the whole path", s.Name, s.From)
	case s.inFile && !filepath.IsAbs(path):
		return target{}, exit.Errorf(exit.Usage, "%s (from %s): in a file the path must begin with /, or each folder would have locks of its own", s.Name, s.From)
	}
	called := "sqlite:" + path
	if abs, err := filepath.Abs(path); err == nil {
		called = "sqlite:" + abs
	}
	return target{
		called: called,
		open:   func() (dibsdriver.Driver, error) { return dibssqlite.Open(path, nil) },
		schema: dibssqlite.Schema(nil),
	}, nil
}
