package dibssqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
)

// schemaVersion is what this release writes, and the newest that it understands.
const schemaVersion = 1

//go:embed schema.sql
var schemaSQL string

// Schema returns the statements that make the tables, for those who want to see them or to run them with their own migrations.
// Nobody has to: the driver makes what is missing. With a TablePrefix that is not valid it returns a comment that says so.
func Schema(cfg *Config) string {
	prefix, err := cfg.prefix()
	if err != nil {
		return "-- " + err.Error() + "\n"
	}
	return withPrefix(schemaSQL, prefix)
}

func withPrefix(text, prefix string) string {
	return strings.ReplaceAll(text, "dibs_", prefix)
}

// ensure sees to it that the tables are there, once, and again when the file was replaced under us.
func (d *Driver) ensure(ctx context.Context) error {
	if d.usable() {
		return nil
	}
	select {
	case <-d.setup:
		defer func() { d.setup <- struct{}{} }()
	case <-ctx.Done():
		return d.fail("open", ctx.Err())
	case <-d.closing:
		return d.closedError()
	}
	if d.usable() {
		return nil
	}
	d.ready.Store(nil)
	return d.waitForLock(ctx, nil, func() error { return d.prepare(ctx) })
}

// usable also looks whether the file at the path is still the one that our connections have open: after a clean-up of /tmp, say,
// we would go on in a file that nobody else can see, and two would hold one key.
func (d *Driver) usable() bool {
	r := d.ready.Load()
	if r == nil || !d.own {
		return r != nil
	}
	fi, err := os.Stat(d.path)
	return err == nil && os.SameFile(fi, r.file)
}

// prepare may end anywhere with a busy error and is then run again from the start.
func (d *Driver) prepare(ctx context.Context) (err error) {
	if d.own {
		if err := lookAt(d.store, d.path); err != nil {
			return err
		}
	}
	before, _ := os.Stat(d.path)
	s, err := d.newSession(ctx)
	if err != nil {
		return err
	}
	kept := false
	defer func() {
		if !kept {
			s.close(false)
		}
	}()
	if !d.own {
		if err := d.checkUsersDB(s); err != nil {
			return err
		}
	}
	version, err := d.version(s)
	if err != nil {
		return err
	}
	r := &readiness{}
	if d.own {
		if r.wal, err = d.useWAL(s); err != nil {
			return err
		}
	}
	if version == 0 {
		if err := d.create(s); err != nil {
			return err
		}
	}
	if d.own {
		if r.file, err = os.Stat(d.path); err != nil {
			return err
		}
		if r.path, err = filepath.EvalSymlinks(d.path); err != nil {
			return err
		}
		s.made = r
		// Closing it would, if nobody else has the file open, take as long as all the rest. But it may have another file open, if that at the path was replaced.
		kept = before != nil && os.SameFile(before, r.file) && d.writer.first(s)
	}
	d.ready.Store(r)
	return nil
}

// version is 0 if there are no tables yet. A version that we do not know is an error, before anything was touched.
func (d *Driver) version(s *session) (v int64, err error) {
	err = s.row(d.q.version).Scan(&v)
	if noTable(err) || errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if v > schemaVersion {
		return 0, refused("dibs: %s: its tables have schema version %d, and this program's dibssqlite knows versions up to %d; "+
			"update the module github.com/dibs-go/dibs/dibssqlite (or the dibs command) of this program",
			d.name(), v, schemaVersion)
	}
	return v, err
}

// create runs in one transaction, so nobody ever sees half of the tables; two who race for it do it one after the other, and
// to the second it is all there already.
func (d *Driver) create(s *session) error {
	if err := s.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := s.exec(d.q.schema)
	if err == nil {
		err = s.exec("COMMIT")
	}
	if err != nil {
		s.rollback()
	}
	return err
}

// useWAL lets readers and the writer go side by side, and makes a commit cheap. Switching needs the file for a moment to oneself; a
// busy error is the caller's to wait for. Where WAL is impossible SQLite stays with its rollback journal, which
// is slower and as right.
func (d *Driver) useWAL(s *session) (bool, error) {
	var mode string
	if err := s.row("PRAGMA journal_mode").Scan(&mode); err != nil || mode == "wal" {
		return err == nil, err
	}
	// The journal mode is a lasting property of the file: not ours to change if it has another use.
	var strangers int
	if err := s.row(d.q.strangers).Scan(&strangers); err != nil || strangers > 0 {
		return false, err
	}
	err := s.row("PRAGMA journal_mode = WAL").Scan(&mode)
	return err == nil && mode == "wal", err
}

// checkUsersDB finds out whether we understand this database's errors, without which a locked file could not be told from a broken
// one. The type of the sql driver would not do: it may be wrapped. So it asks for something wrong.
func (d *Driver) checkUsersDB(s *session) error {
	err := s.exec("SELECT dibs_asks_for_a_function_that_is_not_there()")
	if err == nil {
		return errNotSQLite
	}
	if _, ok := errors.AsType[*sqlite.Error](err); !ok {
		if s.ctx.Err() != nil {
			return err
		}
		return refused("%w (it answered: %w)", errNotSQLite, err)
	}
	var file string
	if err := s.row("SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&file); err != nil {
		return err
	}
	if file == "" {
		return refused("dibs: sqlite: the *sql.DB has its database in memory, where each connection would have locks of its own; " +
			"open a file, or use dibsmem for locks within one process")
	}
	d.file.Store(&file)
	return nil
}

var errNotSQLite = refused("dibs: sqlite: the *sql.DB given to dibssqlite.New was not opened with modernc.org/sqlite; " +
	"open it with that driver (the name is \"sqlite\"), or take the dibs driver for your database")
