package dibssqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dibs-go/dibs/dibsdriver"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// lockedError: the context ended while somebody else kept the file locked.
type lockedError struct{ ctx, busy error }

func (e *lockedError) Error() string   { return e.ctx.Error() + " (" + e.busy.Error() + ")" }
func (e *lockedError) Unwrap() []error { return []error{e.ctx, e.busy} }

// sqliteCode is the primary result code, 0 if err is not SQLite's.
func sqliteCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// extendedCode is the whole result code.
func extendedCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

// busy tells whether the same again may work in a moment. PROTOCOL is what the race for a new write-ahead log can end with.
func busy(err error) bool {
	if err == nil {
		return false
	}
	switch sqliteCode(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return true
	}
	return false
}

func noTable(err error) bool {
	return sqliteCode(err) == sqlite3.SQLITE_ERROR && strings.Contains(err.Error(), "no such table")
}

// noTransaction: SQLite had rolled back by itself, or there was nothing to roll back.
func noTransaction(err error) bool {
	return sqliteCode(err) == sqlite3.SQLITE_ERROR && strings.Contains(err.Error(), "no transaction is active")
}

// name is the store as errors call it.
func (d *Driver) name() string {
	if file := d.file.Load(); file != nil {
		return "sqlite:" + *file
	}
	return d.store
}

// fail makes the error that callers see: on which file, while doing what, what happened, what to do, and the names for errors.Is.
func (d *Driver) fail(doing string, err error) error {
	if errors.Is(err, dibsdriver.ErrRefused) || errors.Is(err, dibsdriver.ErrClosed) || errors.Is(err, dibsdriver.ErrUnavailable) {
		return err // says all that already
	}
	what, names := d.explain(err)
	return dibsdriver.Failed(d.name(), doing, what, err, names...)
}

// refused is an error that waiting does not mend. It reads as a sentence, without the names that it matches.
func refused(format string, args ...any) error {
	return named(fmt.Errorf(format, args...), dibsdriver.ErrRefused, dibsdriver.ErrUnavailable)
}

func named(err error, names ...error) error { return dibsdriver.Named(err, names...) }

func (d *Driver) explain(err error) (what string, names []error) {
	unavailable := []error{dibsdriver.ErrUnavailable}
	refused := []error{dibsdriver.ErrRefused, dibsdriver.ErrUnavailable}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		if _, ok := errors.AsType[*lockedError](err); ok {
			return "another process kept the file locked until the context ended; look for a long transaction, or a frozen process, with the file open " +
				"(lsof, fuser)", unavailable
		}
		return "the context ended first", unavailable
	}
	switch sqliteCode(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return "the file is locked by another process", unavailable
	case sqlite3.SQLITE_NOTADB:
		return "this file is not an SQLite database (or is encrypted); give another path, or move the file away", refused
	case sqlite3.SQLITE_CORRUPT:
		return "the file is damaged; stop the programs that use it and delete it together with its -wal and -shm (it holds only locks " +
			"if it is dibs' own), or restore it", refused
	case sqlite3.SQLITE_READONLY:
		return "the file takes no writes; give this user the right to write to the file and to its folder, and look whether the file " +
			"system is mounted read-only", []error{dibsdriver.ErrReadOnly, dibsdriver.ErrUnavailable}
	case sqlite3.SQLITE_FULL:
		return "no space is left for the file; free some on its disk (or raise max_page_count or the quota)", unavailable
	case sqlite3.SQLITE_CANTOPEN:
		// Not refused: a process that has too many files open for the moment gets this as well.
		return "the file cannot be opened; look whether its folder is there, and whether this user may read and write the file and its " +
			"folder, where SQLite keeps -wal and -shm files, and whether the disk is full", unavailable
	case sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		return "access was denied; look at the rights of the file, and at the authorizer if the *sql.DB has one", refused
	case sqlite3.SQLITE_IOERR:
		switch extendedCode(err) {
		case sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC, sqlite3.SQLITE_IOERR_TRUNCATE,
			sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMOPEN, sqlite3.SQLITE_IOERR_SHMMAP:
			return "the disk is full or failing; free some space on it (or raise the quota), and if there is enough see the system's log", unavailable
		}
		return "the disk gave an error; see the system's log", unavailable
	case sqlite3.SQLITE_ERROR:
		if strings.Contains(err.Error(), "no such column") || strings.Contains(err.Error(), "has no column") {
			return "there are tables of these names that are not dibs'; choose another Config.TablePrefix", refused
		}
		if strings.Contains(err.Error(), "no such function") {
			return "this SQLite is too old; update modernc.org/sqlite", refused
		}
	}
	if strings.Contains(err.Error(), "sql: database is closed") {
		return "the *sql.DB was closed before the driver; close the Locker and its driver first", unavailable
	}
	return "SQLite failed", unavailable
}
