package dibssqlite

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// The test binary is also its own helper process.
func TestMain(m *testing.M) {
	role := os.Getenv("DIBS_TEST_ROLE")
	if role == "" {
		os.Exit(m.Run())
	}
	if err := runRole(role, os.Args[1:]); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func runRole(role string, args []string) error {
	ctx := context.Background()
	switch role {
	case "race":
		return raceRole(args[0], args[1], args[2])
	case "keep-locked": // holds the file's write lock until its input ends
		db, err := sql.Open("sqlite", args[0])
		if err != nil {
			return err
		}
		if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
			return err
		}
		fmt.Println("ready")
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	case "ask": // takes a place in the queue of key "k" and is then killed
		d, err := Open(args[0], nil)
		if err != nil {
			return err
		}
		r, err := d.Acquire(ctx, dibsdriver.AcquireParams{Key: "k", Owner: newOwner(), TTL: time.Minute, Waiter: "dead"})
		fmt.Println("ready", r.Acquired, err)
		_, _ = io.Copy(io.Discard, os.Stdin)
		return nil
	case "try": // reports what a user without rights gets
		return json.NewEncoder(os.Stdout).Encode(try(args[0]))
	case "list": // the same for List
		d, err := Open(args[0], nil)
		if err != nil {
			return err
		}
		defer d.Close()
		records, err := d.List(ctx, "")
		return json.NewEncoder(os.Stdout).Encode(listing{outcomeOf(err), records})
	case "full":
		return fullRole(ctx, args)
	case "examine": // the same for an examination
		d, err := Open(args[0], nil)
		if err != nil {
			return err
		}
		defer d.Close()
		return json.NewEncoder(os.Stdout).Encode(d.Examine(ctx))
	}
	return errors.New("no such role")
}

// outcome is an error in a form that passes through a pipe.
type outcome struct {
	Text                           string
	ReadOnly, Unavailable, Refused bool
	NotApplied                     bool
}

// listing is what List returns.
type listing struct {
	Outcome outcome
	Records []dibsdriver.Record
}

func outcomeOf(err error) outcome {
	if err == nil {
		return outcome{}
	}
	return outcome{
		err.Error(), errors.Is(err, dibsdriver.ErrReadOnly), errors.Is(err, dibsdriver.ErrUnavailable), errors.Is(err, dibsdriver.ErrRefused),
		dibsdriver.FateOf(err) == dibsdriver.FateNotApplied,
	}
}

// try says what Ping and Acquire answer on a file.
func try(path string) [2]outcome {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	d, err := Open(path, nil)
	if err != nil {
		err = dibsdriver.NotApplied(err)
		return [2]outcome{outcomeOf(err), outcomeOf(err)}
	}
	defer d.Close()
	ping := d.Ping(ctx)
	_, err = d.Acquire(ctx, dibsdriver.AcquireParams{Key: "k", Owner: newOwner(), TTL: time.Second})
	return [2]outcome{outcomeOf(ping), outcomeOf(err)}
}

type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Scanner
}

func startRole(t *testing.T, prepare func(*exec.Cmd), role string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "DIBS_TEST_ROLE="+role)
	cmd.Stderr = os.Stderr
	if prepare != nil {
		prepare(cmd)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd, stdin, bufio.NewScanner(stdout)}
	p.out.Buffer(nil, 1<<20)
	t.Cleanup(p.kill)
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	if !p.out.Scan() {
		t.Fatal("the helper process ended early:", p.out.Err())
	}
	return p.out.Text()
}

func newOwner() string {
	const digits = "0123456789abcdefghijklmnopqrstuv"
	b := make([]byte, dibsdriver.OwnerLen)
	f, _ := os.Open("/dev/urandom")
	defer f.Close()
	_, _ = io.ReadFull(f, b)
	for i := range b {
		b[i] = digits[b[i]%32]
	}
	return string(b)
}

func tempFile(t testing.TB) string { return filepath.Join(t.TempDir(), "locks.db") }

func open(t testing.TB, path string) *Driver {
	t.Helper()
	d, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// raw opens a file with nothing of dibs in between, to look at it and to shift times.
func raw(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	if !strings.Contains(dsn, "?") {
		dsn += "?_busy_timeout=5000"
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func mustExec(t testing.TB, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.Exec(query, args...); err != nil {
		t.Fatal(query, err)
	}
}

func number(t testing.TB, db *sql.DB, query string, args ...any) (n int64) {
	t.Helper()
	if err := db.QueryRow(query, args...).Scan(&n); err != nil {
		t.Fatal(query, err)
	}
	return n
}

// take acquires or fails the test.
func take(t testing.TB, d *Driver, key string, ttl time.Duration) (owner string, token int64) {
	t.Helper()
	owner = newOwner()
	r, err := d.Acquire(t.Context(), dibsdriver.AcquireParams{Key: key, Owner: owner, TTL: ttl, Holder: "h", Note: "n"})
	if err != nil || !r.Acquired {
		t.Fatalf("acquire %q: %+v, %v", key, r, err)
	}
	return owner, r.Token
}

func release(t testing.TB, d *Driver, key, owner string) {
	t.Helper()
	if err := d.Release(t.Context(), dibsdriver.ReleaseParams{Key: key, Owner: owner}); err != nil {
		t.Fatal(err)
	}
}

// ask acquires as a waiter, and returns the owner if it got the key.
func ask(t testing.TB, d *Driver, key, waiter string) (dibsdriver.AcquireResult, string) {
	t.Helper()
	owner := newOwner()
	r, err := d.Acquire(t.Context(), dibsdriver.AcquireParams{Key: key, Owner: owner, TTL: time.Minute, Waiter: waiter})
	if err != nil {
		t.Fatal(err)
	}
	return r, owner
}

// eventually is for goroutines that end by themselves in a moment.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within 10 s: " + what)
		}
	}
}

func goroutinesBack(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		eventually(t, "as many goroutines as before", func() bool { return runtime.NumGoroutine() <= before })
	})
}

// bothWays runs a test on a file of our own and on a database of the user's.
func bothWays(t *testing.T, test func(t *testing.T, d *Driver, db *sql.DB)) {
	t.Run("Open", func(t *testing.T) {
		d := open(t, tempFile(t))
		test(t, d, raw(t, d.path))
	})
	t.Run("New", func(t *testing.T) {
		path := tempFile(t)
		d := New(raw(t, path), nil)
		defer d.Close()
		test(t, d, raw(t, path))
	})
}
