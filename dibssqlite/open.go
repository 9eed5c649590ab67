package dibssqlite

import (
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // registers the driver
)

// Open keeps the locks in the SQLite file at path, which is made on first use if it is not there; its folder must be
// there. Every process that is to share the locks needs the right to write to the file and to its folder, where SQLite puts two more files
// (-wal and -shm).
//
// Open itself only looks at the path; whether the file can be used shows at the first call, or at Ping. A file that already
// is a database of some other use is left in its journal mode; otherwise the journal mode becomes WAL.
func Open(path string, cfg *Config) (*Driver, error) {
	if path == "" {
		return nil, refused("dibs: sqlite: the path of the file is empty")
	}
	if path == ":memory:" || strings.HasPrefix(path, "file::memory:") {
		return nil, refused("dibs: sqlite: %q: each connection would have a database, and locks, of its own; give a file, "+
			"or use dibsmem for locks within one process", path)
	}
	// The working directory may change later.
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, refused("dibs: sqlite:%s: %w", path, err)
	}
	store := "sqlite:" + abs
	if err := lookAt(store, abs); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", dsn(abs))
	if err != nil {
		return nil, refused("dibs: %s: %w", store, err)
	}
	d := newDriver(db, store, cfg)
	d.path, d.own = abs, true
	// Sessions keep their connections themselves; one that they give up must really be closed, above all after the file was replaced.
	db.SetMaxIdleConns(-1)
	return d, nil
}

// dsn makes a URI, in which every byte of a path can be written: a plain name would end at a question mark.
func dsn(abs string) string {
	p := filepath.ToSlash(abs)
	if !strings.HasPrefix(p, "/") { // C:/...
		p = "/" + p
	}
	// No busy_timeout: SQLite would sleep on a locked file without seeing the context's end; lock waits are tx.go's.
	return (&url.URL{Scheme: "file", Path: p}).String() + "?_error_rc=1"
}

// No SQLite database is smaller.
const smallestFile = 512

// lookAt finds what is wrong with a path without opening the file: closing it again would drop the locks that this process
// has on it.
func lookAt(store, path string) error {
	dir := filepath.Dir(path)
	switch fi, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return refused("dibs: %s: the folder %s is not there; create it", store, dir)
	case err != nil:
		return refused("dibs: %s: the folder %s cannot be read; check its rights: %w", store, dir, err)
	case !fi.IsDir():
		return refused("dibs: %s: %s is not a folder; give another path", store, dir)
	}
	fi, err := os.Stat(path)
	switch {
	case err != nil: // mostly not there yet; SQLite will say
		return nil
	case fi.IsDir():
		return refused("dibs: %s: this is a folder; give the path of a file in it, such as %s", store, filepath.Join(path, "locks.db"))
	case !fi.Mode().IsRegular():
		return refused("dibs: %s: this is not a regular file; give another path", store)
	case fi.Size() > 0 && fi.Size() < smallestFile:
		// SQLite would take it for an empty database and overwrite it.
		return refused("dibs: %s: this file is not an SQLite database; give another path, or move the file away", store)
	}
	return nil
}
