package dibssqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	sqlite3 "modernc.org/sqlite/lib"
)

// quietLooks is how often a file that is being changed is looked at anew.
const quietLooks = 3

// notWritable tells whether err may come of rights to write that are missing, without which one can look all the same.
func notWritable(err error) bool {
	c := sqliteCode(err)
	return c == sqlite3.SQLITE_READONLY || c == sqlite3.SQLITE_CANTOPEN
}

// listUnchanged lists a file that this user may read and not write to. SQLite refuses one in WAL mode that nobody has open, as it would have to make a -wal
// for it. Such a file stands still, and may be read as one that never changes, if it has not changed in the end.
func (d *Driver) listUnchanged(ctx context.Context, prefix string) (records []dibsdriver.Record, ok bool) {
	records, err := d.listThrough(ctx, "&mode=ro", prefix)
	if !notWritable(err) {
		return records, err == nil
	}
	for range quietLooks {
		before, quiet := d.quiet()
		if !quiet {
			break
		}
		if records, err = d.listThrough(ctx, "&mode=ro&immutable=1", prefix); err != nil {
			break
		}
		after, quiet := d.quiet()
		if quiet && os.SameFile(before, after) && before.ModTime().Equal(after.ModTime()) && before.Size() == after.Size() {
			return records, true
		}
	}
	return nil, false
}

// quiet tells whether all that the database holds is in its file.
func (d *Driver) quiet() (os.FileInfo, bool) {
	path, err := filepath.EvalSymlinks(d.path) // SQLite's other files are beside what a link leads to
	if err != nil {
		return nil, false
	}
	for _, more := range []string{"-wal", "-journal"} {
		if _, err := os.Stat(path + more); !os.IsNotExist(err) {
			return nil, false
		}
	}
	fi, err := os.Stat(path)
	return fi, err == nil
}

// listThrough opens the file for this once. A connection that takes no locks (immutable) is harmless to others of this process: they would have made a -wal.
func (d *Driver) listThrough(ctx context.Context, how, prefix string) (records []dibsdriver.Record, err error) {
	db, err := sql.Open("sqlite", dsn(d.path)+how)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	s := &session{conn: conn, ctx: ctx}
	err = d.waitForLock(ctx, nil, func() error {
		version, err := d.version(s)
		switch {
		case err != nil:
			return err
		case version == 0:
			return errNoTables
		}
		records, err = d.list(s, prefix)
		return err
	})
	return records, err
}

var errNoTables = errors.New("dibs: there are no tables")

// list reads the unexpired leases.
func (d *Driver) list(s *session, prefix string) (records []dibsdriver.Record, err error) {
	query, args := d.listQuery(prefix)
	err = s.each(func(rows *sql.Rows) error {
		var key sql.RawBytes
		var left, since int64
		var r dibsdriver.Record
		if err := rows.Scan(&key, &r.Token, &left, &since, &r.Ending, &r.Holder, &r.Note); err != nil {
			return err
		}
		r.Key, r.ExpiresIn, r.Since = string(key), time.Duration(left)*time.Millisecond, time.UnixMilli(since).UTC()
		records = append(records, r)
		return nil
	}, query, args...)
	return records, err
}
