package dibssqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

var _ dibsdriver.Doctor = (*Driver)(nil)

// The checks, in the order in which they are made.
const (
	checkConfig     = "configuration"
	checkFile       = "file"
	checkRights     = "rights"
	checkFileSystem = "file system"
	checkSpace      = "space"
	checkOpen       = "open"
	checkTables     = "tables"
	checkJournal    = "journal"
	checkIntegrity  = "integrity"
	checkWrites     = "writes"
	checkHolders    = "holders"
)

const (
	// examineLimit is how long an examination waits for a file that others keep locked, each time.
	examineLimit = 2 * time.Second
	// checkedSize is the largest file that is read as a whole: dibs' own are much smaller.
	checkedSize = 64 << 20
	// spaceEnough is what the file, its -wal and its -shm need with thousands of keys, and more.
	spaceEnough = 16 << 20
)

// Examine implements [dibsdriver.Doctor]: it looks at the file and its folder, the rights to them, the file system, the tables, and whether the file can be written
// to, where it leaves nothing. It makes neither the file nor the tables.
func (d *Driver) Examine(ctx context.Context) []dibsdriver.Finding {
	x := &examination{d: d}
	if err := d.enter(ctx); err != nil {
		x.failed(checkConfig, err)
		return x.Findings
	}
	defer d.calls.Done()
	if d.own && !x.file() {
		return x.Findings
	}
	x.inside(ctx)
	return x.Findings
}

// examining is what a question is called in errors.
const examining = "examine"

// examination is one call of Examine.
type examination struct {
	dibsdriver.Findings
	d *Driver
}

// failed makes a fault of an error for callers.
func (x *examination) failed(check string, err error) {
	what, _ := x.d.explain(err)
	found, advice := dibsdriver.Split(err, what, x.d.name(), "sqlite", examining)
	switch {
	case advice != "":
	case errors.Is(err, dibsdriver.ErrRefused), errors.Is(err, dibsdriver.ErrClosed):
		advice = "mend it in the program that opens the store"
	default:
		advice = "look who else has the file open (lsof, fuser), and at the system's log"
	}
	x.Fault(check, advice, "%s", found)
}

// file looks at the file from outside, and tells whether there is something to look into.
func (x *examination) file() bool {
	path := x.d.path
	if err := lookAt(x.d.store, path); err != nil {
		x.failed(checkFile, err)
		return false
	}
	fi, err := os.Stat(path)
	there := err == nil
	switch {
	case there:
		x.OK(checkFile, "%s, %d KB", path, (fi.Size()+1023)/1024)
	case errors.Is(err, fs.ErrNotExist):
		x.OK(checkFile, "%s is not there yet; it is made when the first lock is taken", path)
	default:
		x.Fault(checkFile, "let this user enter the folders above it", "%s cannot be looked at (%s)", path, err)
		return false
	}
	x.access(path)
	x.fileSystem(filepath.Dir(path))
	return there
}

// access asks for the rights that SQLite needs. A right that is missing makes all that follows fail as well, but in other words.
func (x *examination) access(path string) {
	missing := 0
	folder := filepath.Dir(path)
	if err := mayWrite(folder, true); err != nil {
		missing++
		x.Fault(checkRights, "give this user the right to write to the folder", "the folder %s takes no files of this user (%s): SQLite puts %[3]s-wal and %[3]s-shm there", folder, err, filepath.Base(path))
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if err := mayWrite(name, false); err != nil && !errors.Is(err, fs.ErrNotExist) {
			missing++
			x.Fault(checkRights, "give this user the right to read and write it, as all users that share the locks need it", "%s cannot be read and written by this user (%s)", name, err)
		}
	}
	if missing == 0 {
		x.OK(checkRights, "this user may read and write the file and its folder")
	}
}

// fileSystem: SQLite's locks, and the memory that WAL shares, do not reach over a network.
func (x *examination) fileSystem(folder string) {
	name, kind, free, err := fileSystemOf(folder)
	if errors.Is(err, errors.ErrUnsupported) {
		x.OK(checkFileSystem, "not looked at on this system; make sure that it is a disk of this machine")
		return
	}
	if err != nil {
		x.Warn(checkFileSystem, "make sure that it is a disk of this machine", "it cannot be told (%s)", err)
		return
	}
	x.fileSystemIs(name, kind)
	x.room(free)
}

// reach says how far a file system reaches.
type reach int

const (
	unknownReach reach = iota
	thisMachine
	perhapsOthers
	otherMachines
)

func (x *examination) fileSystemIs(name string, r reach) {
	switch r {
	case otherMachines:
		x.Fault(checkFileSystem, "put the file on a disk of this machine; for locks of several machines take a store with a server",
			"%s: machines that share it do not see each other's locks, and the file may be damaged", name)
	case perhapsOthers:
		x.Warn(checkFileSystem, "make sure that one machine alone uses the file, or put it on a disk of this machine", "%s, which may lead to another machine, or to the host of this one", name)
	case thisMachine:
		x.OK(checkFileSystem, "%s", name)
	default:
		x.OK(checkFileSystem, "%s; make sure that it is a disk of this machine", name)
	}
}

func (x *examination) room(free uint64) {
	if free < spaceEnough {
		x.Warn(checkSpace, "free some on the disk, or raise the quota", "%d KB are left for this user: when there is none, no lock can be taken", free/1024)
		return
	}
	x.OK(checkSpace, "%d MB are left", free>>20)
}

// inside looks at the database itself, on a connection for this alone.
func (x *examination) inside(ctx context.Context) {
	d := x.d
	s := &session{}
	err := x.patiently(ctx, s, func(ctx context.Context) error {
		opened, err := d.newSession(ctx)
		if err == nil {
			s = opened
		}
		return err
	})
	if err != nil {
		x.failed(checkOpen, d.fail(examining, err))
		return
	}
	defer func() { s.close(d.own) }()
	if !d.own && !x.users(ctx, s) {
		return
	}
	var version int64
	err = x.patiently(ctx, s, func(context.Context) (err error) {
		version, err = d.version(s)
		return err
	})
	switch {
	case err != nil:
		x.failed(checkTables, d.fail(examining, err))
		return
	case version == 0:
		x.OK(checkTables, "they are not there yet; they are made when the first lock is taken")
	default:
		x.OK(checkTables, "schema version %d", version)
	}
	for _, look := range []struct {
		check string
		at    func(ctx context.Context, s *session, tables bool) error
	}{{checkJournal, x.journal}, {checkIntegrity, x.integrity}, {checkWrites, x.writes}, {checkHolders, x.holders}} {
		err := x.patiently(ctx, s, func(ctx context.Context) error { return look.at(ctx, s, version > 0) })
		if err != nil {
			x.failed(look.check, d.fail(examining, err))
		}
	}
}

// users looks at a database of the user's, and tells whether it is one that can hold locks.
func (x *examination) users(ctx context.Context, s *session) bool {
	if err := x.patiently(ctx, s, func(context.Context) error { return x.d.checkUsersDB(s) }); err != nil {
		x.failed(checkOpen, x.d.fail(examining, err))
		return false
	}
	path := x.d.filePath()
	x.OK(checkFile, "%s", path)
	x.access(path)
	x.fileSystem(filepath.Dir(path))
	return true
}

// patiently calls f until the answer is not "busy", but not for long.
func (x *examination) patiently(ctx context.Context, s *session, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, examineLimit)
	defer cancel()
	s.ctx = x.d.statementContext(ctx)
	return x.d.waitForLock(ctx, nil, func() error { return f(ctx) })
}

func (x *examination) journal(_ context.Context, s *session, tables bool) error {
	var mode string
	var others int
	if err := s.row("PRAGMA journal_mode").Scan(&mode); err != nil {
		return err
	}
	if err := s.row(x.d.q.strangers).Scan(&others); err != nil {
		return err
	}
	switch {
	case mode == "wal":
		x.OK(checkJournal, "WAL: those who read and who writes do not wait for each other")
	case !tables:
		x.OK(checkJournal, "%s; it becomes WAL with the first lock, unless the file has tables of others", mode)
	case others > 0 || !x.d.own:
		x.Warn(checkJournal, "set it yourself (PRAGMA journal_mode = WAL), or give dibs a file of its own",
			"%s, and the file has another use, so dibs leaves it: those who read and who writes wait for each other", mode)
	default:
		x.Warn(checkJournal, "look whether the file system can do it, and whether a long transaction of another program keeps dibs from switching", "%s, though dibs tries to make it WAL: locks are slower", mode)
	}
	return nil
}

func (x *examination) integrity(ctx context.Context, s *session, _ bool) error {
	var pages, size int64
	if err := s.row("SELECT p.page_count, z.page_size FROM pragma_page_count AS p, pragma_page_size AS z").Scan(&pages, &size); err != nil {
		return err
	}
	if pages*size > checkedSize {
		x.OK(checkIntegrity, "not looked at: the file has %d MB, and reading it would take long (PRAGMA quick_check)", pages*size>>20)
		return nil
	}
	defer func(before context.Context) { s.ctx = before }(s.ctx)
	s.ctx = ctx // it may be long
	var answer string
	if err := s.row("PRAGMA quick_check(1)").Scan(&answer); err != nil {
		return err
	}
	if answer != "ok" {
		x.Fault(checkIntegrity, "stop the programs that use it, and delete it together with its -wal and -shm (it holds only locks if it is dibs' own), or restore it",
			"the file is damaged (%s)", strings.ReplaceAll(answer, "\n", " "))
		return nil
	}
	x.OK(checkIntegrity, "the file is whole")
	return nil
}

// writes does as an acquisition does. What SQLite has in its memory only says nothing of the disk, so it commits, and what it commits leaves nothing behind. Where
// there are no tables it makes none, and so cannot.
func (x *examination) writes(_ context.Context, s *session, tables bool) error {
	if err := s.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer s.rollback()
	changes := []string{x.d.q.schema}
	if tables {
		changes = []string{x.d.q.probe, "COMMIT"}
	}
	for _, change := range changes {
		if err := s.exec(change); err != nil {
			return err
		}
	}
	x.OK(checkWrites, "the file takes them")
	return nil
}

func (x *examination) holders(_ context.Context, s *session, tables bool) error {
	if !tables {
		return nil
	}
	var held, waiting int64
	if err := s.row(x.d.q.census).Scan(&held, &waiting); err != nil {
		return err
	}
	x.OK(checkHolders, "%d held, %d waiting (dibs ls shows who holds what)", held, waiting)
	return nil
}
