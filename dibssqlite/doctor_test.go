package dibssqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

const (
	isOK      = dibsdriver.LevelOK
	isWarning = dibsdriver.LevelWarning
	isFault   = dibsdriver.LevelFault
)

// sound requires what holds of all findings: they say something, and what is wrong comes with advice.
func sound(t *testing.T, found []dibsdriver.Finding) {
	t.Helper()
	if len(found) == 0 {
		t.Error("nothing was found")
	}
	for _, f := range found {
		if text := f.Found + f.Advice; f.Check == "" || f.Found == "" || strings.Contains(text, "%!") || strings.Contains(text, "dibs: ") || (f.Advice == "") != (f.Level == isOK) {
			t.Errorf("%+v", f)
		}
	}
}

// wantFinding requires a finding whose texts have all these parts.
func wantFinding(t *testing.T, found []dibsdriver.Finding, check string, level dibsdriver.Level, parts ...string) {
	t.Helper()
	sound(t, found)
	if !slices.ContainsFunc(found, func(f dibsdriver.Finding) bool {
		return f.Check == check && f.Level == level && !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(f.Found+"; "+f.Advice, p) })
	}) {
		t.Errorf("no %s of %q with %q in\n%s", level, check, parts, listed(found))
	}
}

// onlyWrong requires that nothing else than these checks has more to say than ok.
func onlyWrong(t *testing.T, found []dibsdriver.Finding, checks ...string) {
	t.Helper()
	for _, f := range found {
		if f.Level != isOK && !slices.Contains(checks, f.Check) {
			t.Errorf("not expected: %+v", f)
		}
	}
}

func listed(found []dibsdriver.Finding) string {
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "%s %s: %s [%s]\n", f.Level, f.Check, f.Found, f.Advice)
	}
	return b.String()
}

// TestDoctorHealthy: nothing is made and nothing is changed, before the first lock and after it.
func TestDoctorHealthy(t *testing.T) {
	d := open(t, tempFile(t))
	found := d.Examine(t.Context())
	onlyWrong(t, found)
	wantFinding(t, found, checkFile, isOK, "not there yet", d.path)
	wantFinding(t, found, checkRights, isOK)
	if entries, err := os.ReadDir(filepath.Dir(d.path)); err != nil || len(entries) > 0 {
		t.Errorf("it has made %v, %v", entries, err)
	}

	owner, _ := take(t, d, "k", time.Minute)
	ask(t, d, "k", "a waiter")
	db := raw(t, d.path)
	before := number(t, db, "SELECT sum(token + expires_ms + since_ms) + (SELECT sum(seen_ms) FROM dibs_waiters) FROM dibs_leases")
	found = open(t, d.path).Examine(t.Context())
	onlyWrong(t, found)
	for _, check := range []string{checkFile, checkRights, checkFileSystem, checkSpace, checkTables, checkJournal, checkIntegrity, checkWrites, checkHolders} {
		if check != checkSpace || fileSystemKnown(d.path) {
			wantFinding(t, found, check, isOK)
		}
	}
	wantFinding(t, found, checkHolders, isOK, "1 held, 1 waiting")
	wantFinding(t, found, checkJournal, isOK, "WAL")
	if number(t, db, "SELECT sum(token + expires_ms + since_ms) + (SELECT sum(seen_ms) FROM dibs_waiters) FROM dibs_leases") != before {
		t.Error("it has changed something")
	}
	release(t, d, "k", owner)
	wantFinding(t, d.Examine(t.Context()), checkHolders, isOK, "0 held")
}

func fileSystemKnown(path string) bool {
	_, _, _, err := fileSystemOf(filepath.Dir(path))
	return err == nil
}

// TestDoctorUsersDatabase: with a database of the user's, whose journal mode is not dibs' to change. An examination makes no tables in it.
func TestDoctorUsersDatabase(t *testing.T) {
	path := tempFile(t)
	db := raw(t, path)
	mustExec(t, db, "CREATE TABLE orders (id INTEGER PRIMARY KEY)")
	for _, d := range []*Driver{New(db, nil), open(t, path)} {
		found := d.Examine(t.Context())
		onlyWrong(t, found, checkJournal)
		wantFinding(t, found, checkTables, isOK, "not there yet")
		wantFinding(t, found, checkWrites, isOK)
		if n := number(t, db, "SELECT count(*) FROM sqlite_schema"); n != 1 {
			t.Errorf("there are %d tables and indexes", n)
		}
	}
	for _, d := range []*Driver{New(db, nil), open(t, path)} {
		defer d.Close()
		owner, _ := take(t, d, "k", time.Minute)
		found := d.Examine(t.Context())
		onlyWrong(t, found, checkJournal)
		wantFinding(t, found, checkJournal, isWarning, "delete", "another use", "PRAGMA journal_mode")
		wantFinding(t, found, checkFile, isOK, path)
		wantFinding(t, found, checkHolders, isOK, "1 held")
		release(t, d, "k", owner)
	}
	memory := New(raw(t, ":memory:"), nil)
	defer memory.Close()
	wantFinding(t, memory.Examine(t.Context()), checkOpen, isFault, "in memory", "dibsmem")
}

// TestDoctorBadFiles: each thing that may be wrong with a file is found, and is left as it is.
func TestDoctorBadFiles(t *testing.T) {
	fresh := func() (*Driver, string) {
		d := open(t, filepath.Join(t.TempDir(), "locks.db"))
		if err := d.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		return open(t, d.path), d.path
	}
	write := func(path, content string) {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	change := func(path, statements string) {
		db := raw(t, path)
		mustExec(t, db, statements)
		db.Close()
	}
	for _, c := range []struct {
		name  string
		spoil func(path string)
		check string
		parts []string
	}{
		{"folder gone", func(path string) { _ = os.RemoveAll(filepath.Dir(path)) }, checkFile, []string{"is not there", "create it"}},
		{"a folder", func(path string) { _ = os.Remove(path); _ = os.Mkdir(path, 0o700) }, checkFile, []string{"this is a folder", "give the path of a file"}},
		{"small", func(path string) { write(path, "x") }, checkFile, []string{"not an SQLite database", "another path"}},
		{"text", func(path string) { write(path, strings.Repeat("this is no database\n", 100)) }, checkOpen, []string{"not an SQLite database"}},
		{"damaged", func(path string) {
			s := read(path)
			write(path, s[:4096]+strings.Repeat("U", len(s)-4096))
		}, checkTables, []string{"damaged", "delete it"}},
		{"damaged in the middle", func(path string) {
			s := read(path)
			write(path, s[:8192]+strings.Repeat("U", 64)+s[8192+64:])
		}, checkIntegrity, []string{"damaged", "delete it"}},
		{"newer", func(path string) { change(path, "UPDATE dibs_meta SET value = 7 WHERE name = 'schema_version'") }, checkTables, []string{"version 7", "update the module"}},
		{"others' tables", func(path string) { change(path, "DROP TABLE dibs_meta; CREATE TABLE dibs_meta (id INTEGER)") }, checkTables, []string{"not dibs'", "TablePrefix"}},
	} {
		d, path := fresh()
		c.spoil(path)
		found := d.Examine(t.Context())
		wantFinding(t, found, c.check, isFault, c.parts...)
		if t.Failed() {
			t.Fatalf("with %s: %s", c.name, listed(found))
		}
	}
}

// TestDoctorBusy: a process that keeps the file locked holds an examination up for a moment only, and is told of.
func TestDoctorBusy(t *testing.T) {
	d := open(t, tempFile(t))
	if err := d.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := startRole(t, nil, "keep-locked", d.path)
	p.line(t)
	began := time.Now()
	found := d.Examine(t.Context())
	if took := time.Since(began); took > 2*examineLimit {
		t.Errorf("it took %s", took)
	}
	wantFinding(t, found, checkWrites, isFault, "another process kept the file locked", "lsof")
	onlyWrong(t, found, checkWrites)
	wantFinding(t, found, checkHolders, isOK, "0 held")
	p.kill()
	onlyWrong(t, d.Examine(t.Context()))
}

func TestDoctorEnds(t *testing.T) {
	d := open(t, tempFile(t))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	wantFinding(t, d.Examine(ended), checkConfig, isFault, "context ended")
	closed := open(t, tempFile(t))
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	wantFinding(t, closed.Examine(t.Context()), checkConfig, isFault, "closed")
	small := raw(t, tempFile(t))
	small.SetMaxOpenConns(1)
	wantFinding(t, New(small, nil).Examine(t.Context()), checkConfig, isFault, "SetMaxOpenConns")
}

// TestDoctorFileSystems: what is known of how far a file system reaches. (There is none here that reaches further than this machine.)
func TestDoctorFileSystems(t *testing.T) {
	for _, c := range []struct {
		name  string
		reach reach
		level dibsdriver.Level
		says  string
	}{
		{"NFS", otherMachines, isFault, "take a store with a server"},
		{"FUSE", perhapsOthers, isWarning, "one machine alone"},
		{"ext4", thisMachine, isOK, "ext4"},
		{"file system 0x1", unknownReach, isOK, "make sure"},
	} {
		x := &examination{}
		x.fileSystemIs(c.name, c.reach)
		wantFinding(t, x.Findings, checkFileSystem, c.level, c.name, c.says)
	}
	for free, level := range map[uint64]dibsdriver.Level{0: isWarning, spaceEnough - 1: isWarning, spaceEnough: isOK} {
		x := &examination{}
		x.room(free)
		wantFinding(t, x.Findings, checkSpace, level)
	}
}
