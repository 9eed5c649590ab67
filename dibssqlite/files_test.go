package dibssqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

func TestPaths(t *testing.T) {
	t.Chdir(t.TempDir())
	names := []string{"plain.db", "with space.db", "100%.db", "%41.db", "a#b.db", "ключ-鍵-🔑.db", "semi;colon&and=.db", "plus+.db", "quote'.db"}
	if runtime.GOOS != "windows" {
		names = append(names, "what?.db", "?mode=memory", "back\\slash.db", "new\nline.db")
	}
	for _, name := range names {
		d := open(t, name)
		owner, _ := take(t, d, "k", time.Minute)
		if _, err := os.Stat(name); err != nil {
			t.Errorf("%q: the file has another name: %v", name, err)
		}
		abs, _ := filepath.Abs(name)
		other := open(t, abs)
		if r, err := other.List(t.Context(), ""); err != nil || len(r) != 1 {
			t.Errorf("%q: by its whole path: %+v, %v", name, r, err)
		}
		release(t, other, "k", owner)
	}
	entries, _ := os.ReadDir(".")
	for _, e := range entries {
		if base := strings.TrimSuffix(strings.TrimSuffix(e.Name(), "-wal"), "-shm"); !strings.HasSuffix(base, ".db") && base != "?mode=memory" {
			t.Errorf("stray file %q", e.Name())
		}
	}
}

// TestBadFiles: each error names the file and says what to do.
func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := open(t, filepath.Join(dir, "good.db"))
	if err := good.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	good.Close()
	content, err := os.ReadFile(filepath.Join(dir, "good.db"))
	if err != nil {
		t.Fatal(err)
	}
	damaged := string(content[:4096]) + strings.Repeat("U", len(content)-4096)

	for _, c := range []struct{ path, says string }{
		{write("text.db", strings.Repeat("this is no database\n", 100)), "not an SQLite database"},
		{write("note.txt", "x"), "not an SQLite database"},
		{write("damaged.db", damaged), "damaged"},
		{dir, "this is a folder"},
		{filepath.Join(dir, "no", "such.db"), "create it"},
		{filepath.Join(dir, "good.db", "x.db"), "not a folder"},
	} {
		for what, o := range try(c.path) {
			if !strings.Contains(o.Text, c.path) || !strings.Contains(o.Text, c.says) || !o.Unavailable || !o.Refused || !o.NotApplied {
				t.Errorf("%s, call %d: %+v", c.path, what, o)
			}
		}
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "note.txt")); string(b) != "x" {
		t.Errorf("a small file was overwritten: %q", b)
	}
	for _, path := range []string{"", ":memory:"} {
		if _, err := Open(path, nil); !errors.Is(err, dibsdriver.ErrRefused) {
			t.Errorf("Open(%q): %v", path, err)
		}
	}
}

// TestReadOnly: files and folders that this user may not write to. Root may do everything, so the calls are made by nobody.
func TestReadOnly(t *testing.T) {
	dir, err := os.MkdirTemp("", "dibs") // t.TempDir is in a folder that nobody cannot enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = os.Chmod(filepath.Join(dir, "closed"), 0o700)
		os.RemoveAll(dir)
	})
	helper := filepath.Join(dir, "helper")
	binary, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), os.WriteFile(helper, binary, 0o755), os.Mkdir(filepath.Join(dir, "closed"), 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	readOnly := filepath.Join(dir, "closed", "ro.db")
	for _, live := range []bool{false, true} {
		d := open(t, readOnly)
		if err := d.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		held := fmt.Sprint("held while live is ", live)
		take(t, d, held, time.Hour)
		if !live {
			d.Close()
		}
		if err := errors.Join(os.Chmod(readOnly, 0o444), os.Chmod(filepath.Dir(readOnly), 0o555)); err != nil {
			t.Fatal(err)
		}
		for _, o := range tryAsNobody(t, helper, readOnly) {
			if !o.ReadOnly || !o.Unavailable || o.Refused || !o.NotApplied || !strings.Contains(o.Text, readOnly) {
				t.Errorf("live %v: %+v", live, o)
			}
		}
		if l := listAsNobody(t, helper, readOnly); l.Outcome != (outcome{}) || !slices.ContainsFunc(l.Records, func(r dibsdriver.Record) bool { return r.Key == held }) {
			t.Errorf("live %v: %+v", live, l)
		}
		if l := listAsNobody(t, helper, filepath.Join(dir, "closed", "new.db")); !l.Outcome.Unavailable || !strings.Contains(l.Outcome.Text, "read and write") {
			t.Errorf("a file that is not there is listed: %+v", l)
		}
		for _, o := range tryAsNobody(t, helper, filepath.Join(dir, "closed", "new.db")) {
			if !o.Unavailable || !o.NotApplied || !strings.Contains(o.Text, "new.db") || !strings.Contains(o.Text, "read and write") {
				t.Errorf("new file: %+v", o)
			}
		}
		if err := errors.Join(os.Chmod(filepath.Dir(readOnly), 0o755), os.Chmod(readOnly, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

func tryAsNobody(t *testing.T, helper, path string) (o [2]outcome) {
	t.Helper()
	asNobody(t, helper, "try", path, &o)
	return o
}

func listAsNobody(t *testing.T, helper, path string) (l listing) {
	t.Helper()
	asNobody(t, helper, "list", path, &l)
	return l
}

func asNobody(t *testing.T, helper, role, path string, answer any) {
	t.Helper()
	p := startRole(t, func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args[0] = helper, helper
		if os.Getuid() == 0 {
			becomeNobody(cmd)
		}
	}, role, path)
	if err := json.Unmarshal([]byte(p.line(t)), answer); err != nil {
		t.Fatal(err)
	}
}

// TestFull: no room for the file.
func TestFull(t *testing.T) {
	path := tempFile(t)
	db := raw(t, "file:"+path+"?_pragma=max_page_count(10)")
	d := New(db, nil)
	defer d.Close()
	owner, _ := take(t, d, "first", time.Hour)
	var full error
	for i := 0; full == nil && i < 1000; i++ {
		_, full = d.Acquire(t.Context(), dibsdriver.AcquireParams{
			Key: fmt.Sprint(i), Owner: newOwner(), TTL: time.Hour, Note: strings.Repeat("n", 500),
		})
	}
	if !errors.Is(full, dibsdriver.ErrUnavailable) || errors.Is(full, dibsdriver.ErrRefused) || !strings.Contains(full.Error(), "no space") ||
		!strings.Contains(full.Error(), path) || dibsdriver.FateOf(full) != dibsdriver.FateNotApplied {
		t.Error(full)
	}
	// What needs no room goes on.
	if a, err := d.Renew(t.Context(), []dibsdriver.Renewal{{Key: "first", Owner: owner, TTL: 2 * time.Hour}}); err != nil || a[0] != dibsdriver.Renewed {
		t.Error(a, err)
	}
	release(t, d, "first", owner)
}

// TestFileReplaced: after a clean-up took the file away, nobody goes on in a file that others cannot see.
func TestFileReplaced(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("an open file cannot be removed there")
		return
	}
	path := tempFile(t)
	d := open(t, path)
	owner, _ := take(t, d, "k", time.Hour)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil {
			t.Fatal(err)
		}
	}
	other := open(t, path)
	theirs, _ := take(t, other, "k", time.Hour)
	if a, err := d.Renew(t.Context(), []dibsdriver.Renewal{{Key: "k", Owner: owner, TTL: time.Hour}}); err != nil || a[0] != dibsdriver.Lost {
		t.Error(a, err)
	}
	if err := d.Release(t.Context(), dibsdriver.ReleaseParams{Key: "k", Owner: owner}); !errors.Is(err, dibsdriver.ErrLost) {
		t.Error(err)
	}
	if r, _ := ask(t, d, "k", ""); r.Acquired {
		t.Error("two hold the key")
	}
	release(t, other, "k", theirs)
}

// TestFileReplacedWhileItIsOpened: by then we have the one open that nobody else will see.
func TestFileReplacedWhileItIsOpened(t *testing.T) {
	d, c := openCounting(t)
	if err := open(t, d.path).Ping(t.Context()); err != nil { // makes it
		t.Fatal(err)
	}
	other := open(t, d.path)
	var once sync.Once
	c.on = func(query string) {
		if !strings.Contains(query, "journal_mode") {
			return
		}
		once.Do(func() {
			for _, more := range []string{"", "-wal", "-shm"} {
				if err := os.Remove(d.path + more); err != nil && !os.IsNotExist(err) {
					t.Error(err)
				}
			}
			take(t, other, "k", time.Hour)
		})
	}
	for range 2 {
		if r, _ := ask(t, d, "k", ""); r.Acquired {
			t.Error("two holders")
		}
	}
}

// TestTablesDropped: they come back.
func TestTablesDropped(t *testing.T) {
	path := tempFile(t)
	d := open(t, path)
	take(t, d, "k", time.Hour)
	db := raw(t, path)
	mustExec(t, db, "DROP TABLE dibs_leases")
	mustExec(t, db, "DROP TABLE dibs_meta")
	_, err := d.Acquire(t.Context(), dibsdriver.AcquireParams{Key: "k", Owner: newOwner(), TTL: time.Hour})
	if !errors.Is(err, dibsdriver.ErrUnavailable) || dibsdriver.FateOf(err) != dibsdriver.FateNotApplied {
		t.Fatal(err)
	}
	take(t, d, "k", time.Hour)
}

// TestNewerSchema: nothing is touched.
func TestNewerSchema(t *testing.T) {
	path := tempFile(t)
	db := raw(t, path)
	mustExec(t, db, "CREATE TABLE dibs_meta (name TEXT PRIMARY KEY, value INTEGER, more TEXT)")
	mustExec(t, db, "INSERT INTO dibs_meta VALUES ('schema_version', 2, 'x')")
	for _, o := range try(path) {
		if !o.Refused || !o.Unavailable || !strings.Contains(o.Text, "version 2") || !strings.Contains(o.Text, "update the module") {
			t.Errorf("%+v", o)
		}
	}
	if n := number(t, db, "SELECT count(*) FROM sqlite_schema WHERE type = 'table'"); n != 1 {
		t.Error(n, "tables")
	}
	var mode string
	if err := db.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "delete" {
		t.Error(mode, err)
	}

	// Also when it comes while we run: Ping tells.
	d := open(t, tempFile(t))
	if err := d.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustExec(t, raw(t, d.path), "UPDATE dibs_meta SET value = 7 WHERE name = 'schema_version'")
	if err := d.Ping(t.Context()); !errors.Is(err, dibsdriver.ErrRefused) || !strings.Contains(err.Error(), "version 7") {
		t.Error(err)
	}
}

// TestForeignFile: Open in a database of another use changes neither its tables nor its journal mode.
func TestForeignFile(t *testing.T) {
	path := tempFile(t)
	db := raw(t, path)
	mustExec(t, db, "CREATE TABLE orders (id INTEGER PRIMARY KEY)")
	d := open(t, path)
	owner, _ := take(t, d, "k", time.Hour)
	release(t, d, "k", owner)
	var mode string
	if err := raw(t, path).QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "delete" {
		t.Error(mode, err)
	}

	path = tempFile(t)
	mustExec(t, raw(t, path), "CREATE TABLE dibs_meta (id INTEGER)")
	for _, o := range try(path) {
		if !o.Refused || !strings.Contains(o.Text, "TablePrefix") {
			t.Errorf("%+v", o)
		}
	}
}

func TestWALAndSchema(t *testing.T) {
	d := open(t, tempFile(t))
	take(t, d, "k", time.Hour)
	db := raw(t, d.path)
	var mode string
	if err := db.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Error(mode, err)
	}
	cfg := &Config{TablePrefix: "my_Locks9_"}
	mustExec(t, db, Schema(cfg))
	two, err := Open(d.path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	take(t, two, "k", time.Hour) // other tables, other locks
	if n := number(t, db, "SELECT count(*) FROM my_Locks9_leases"); n != 1 {
		t.Error(n)
	}
	for _, prefix := range []string{"1a", "a-b", "a;", `a"`, "sqlite_x", "ä", " "} {
		bad, err := Open(tempFile(t), &Config{TablePrefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bad.Limits(); !errors.Is(err, dibsdriver.ErrRefused) || !strings.Contains(err.Error(), "prefix") {
			t.Errorf("%q: %v", prefix, err)
		}
		if err := bad.Ping(t.Context()); !errors.Is(err, dibsdriver.ErrRefused) {
			t.Errorf("%q: %v", prefix, err)
		}
		bad.Close()
		if s := Schema(&Config{TablePrefix: prefix}); strings.Contains(s, "CREATE") || !strings.HasPrefix(s, "--") {
			t.Errorf("%q: %s", prefix, s)
		}
	}
}
