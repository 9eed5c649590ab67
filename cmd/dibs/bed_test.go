//go:build linux

package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen. It is a bound for a machine that is busy with other things,
// not a time that anything is expected to take.
const patience = 30 * time.Second

// bed is where one test runs its commands: a folder, a store, and a mark by which its processes are found.
type bed struct {
	t       *testing.T
	dir     string
	store   string
	named   string // what dibs' messages call the store by
	mark    string
	*served // nil: the store is an SQLite file
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{t: t, dir: t.TempDir()}
	b.store, b.named = "sqlite:"+b.path("locks.db"), "locks.db"
	b.mark = fmt.Sprintf("DIBS_TEST_MARK=%d-%s", os.Getpid(), filepath.Base(filepath.Dir(b.dir))+filepath.Base(b.dir))
	t.Cleanup(b.nothingLeft)
	return b
}

func (b *bed) path(name string) string { return filepath.Join(b.dir, name) }

// env is the environment of what runs here.
func (b *bed) env(more ...string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "DIBS_STORE=" + b.store, helperVar + "=1", b.mark}
	return append(env, more...)
}

// processes are the living ones that were started here.
func (b *bed) processes() []int {
	var pids []int
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		env, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(env, []byte(b.mark+"\x00")) {
			continue
		}
		if pid, _ := strconv.Atoi(strings.Split(name, "/")[2]); state(pid) != "Z" {
			pids = append(pids, pid)
		}
	}
	return pids
}

// nothingLeft is every test's last check: no process remains.
func (b *bed) nothingLeft() {
	var left []int
	if !until(func() bool { left = b.processes(); return len(left) == 0 }) {
		for _, pid := range left {
			cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			b.t.Errorf("left behind: %d %q", pid, bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '}))
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// running is a command under way.
type running struct {
	b   *bed
	cmd *exec.Cmd
	out *buffer
	err *buffer
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// command makes a dibs that was not started yet.
func (b *bed) command(args ...string) *running {
	r := &running{b: b, cmd: exec.Command(binary, args...), out: new(buffer), err: new(buffer)}
	r.cmd.Env, r.cmd.Dir = b.env(), b.dir
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.err
	r.cmd.WaitDelay = time.Second
	return r
}

func (r *running) start() *running {
	r.b.t.Helper()
	if err := r.cmd.Start(); err != nil {
		r.b.t.Fatal(err)
	}
	r.b.t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	return r
}

// start begins a dibs.
func (b *bed) start(args ...string) *running {
	b.t.Helper()
	return b.command(args...).start()
}

// wait returns the exit status.
func (r *running) wait() int {
	r.b.t.Helper()
	done := make(chan error, 1)
	go func() { done <- r.cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil && !errors.As(err, new(*exec.ExitError)) && !errors.Is(err, exec.ErrWaitDelay) {
			r.b.t.Fatal(err)
		}
	case <-time.After(patience):
		r.b.t.Fatalf("%q goes on; stderr: %s", r.cmd.Args, r.err)
	}
	ws := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		r.b.t.Errorf("%q was killed by %s", r.cmd.Args, ws.Signal())
		return -1
	}
	return ws.ExitStatus()
}

func (r *running) pid() int { return r.cmd.Process.Pid }

func (r *running) signal(sig syscall.Signal) {
	r.b.t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		r.b.t.Fatal(err)
	}
}

// run runs a dibs to its end.
func (b *bed) run(args ...string) (status int, stdout, stderr string) {
	b.t.Helper()
	r := b.start(args...)
	status = r.wait()
	return status, r.out.String(), r.err.String()
}

// want checks a status, and that the one line about it has all these parts; none: that there is no line.
func (r *running) want(status int, parts ...string) {
	r.b.t.Helper()
	got := r.wait()
	if got != status {
		r.b.t.Errorf("%q: status %d, want %d; stderr: %s", r.cmd.Args, got, status, r.err)
	}
	wantLine(r.b.t, r.err.String(), parts...)
}

func wantLine(t *testing.T, stderr string, parts ...string) {
	t.Helper()
	lines := strings.Count(stderr, "\n")
	switch {
	case len(parts) == 0 && stderr != "":
		t.Errorf("stderr is %q, want none", stderr)
	case len(parts) > 0 && (lines != 1 || !strings.HasPrefix(stderr, "dibs: ")):
		t.Errorf("stderr is %q, want one line", stderr)
	}
	if strings.Contains(stderr, "lock lost: lock lost") {
		t.Errorf("stderr is %q, which says the same twice", stderr)
	}
	for _, p := range parts {
		if !strings.Contains(stderr, p) {
			t.Errorf("stderr is %q, want %q in it", stderr, p)
		}
	}
}

// until waits for a condition.
func until(ok func() bool) bool {
	end := time.Now().Add(patience)
	for pause := 4 * time.Millisecond; time.Now().Before(end); pause = min(pause*5/4, 30*time.Millisecond) { // each look is work for a busy machine
		if ok() {
			return true
		}
		time.Sleep(pause)
	}
	return ok()
}

// must waits for a condition, and ends the test without it.
func (b *bed) must(what string, ok func() bool) {
	b.t.Helper()
	if !until(ok) {
		b.t.Fatalf("never: %s", what)
	}
}

func (b *bed) exists(name string) bool {
	_, err := os.Stat(b.path(name))
	return err == nil
}

// content waits for a file that has at least one whole line.
func (b *bed) content(name string) string {
	b.t.Helper()
	var s string
	b.must(name+" is written", func() bool {
		c, _ := os.ReadFile(b.path(name))
		s = string(c)
		return strings.HasSuffix(s, "\n")
	})
	return strings.TrimSuffix(s, "\n")
}

// number waits for a file that begins with a number.
func (b *bed) number(name string) int {
	b.t.Helper()
	first, _, _ := strings.Cut(b.content(name), "\n")
	n, err := strconv.Atoi(first)
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// lastTick is the last time that a ticking helper wrote.
func (b *bed) lastTick(name string) int {
	b.t.Helper()
	lines := strings.Split(strings.TrimSpace(b.content(name)), "\n")
	n, err := strconv.Atoi(lines[len(lines)-1])
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// stat is a field of /proc/PID/stat, counted from the state as 0; empty if there is no such process.
func stat(pid, field int) string {
	s, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	return strings.Fields(string(s[bytes.LastIndexByte(s, ')')+1:]))[field]
}

func state(pid int) string { return stat(pid, 0) }

func parent(pid int) int {
	n, _ := strconv.Atoi(stat(pid, 1))
	return n
}

func alive(pid int) bool { s := state(pid); return s != "" && s != "Z" && s != "X" }

// self is this test program, which is a helper for whom dibs runs it.
var self = func() string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return exe
}()

// sh is a shell script as a command that first writes its pid into a file.
func sh(pidFile, script string) []string {
	return []string{"sh", "-c", "echo $$ >" + pidFile + "; " + script}
}

// free tells whether a key can be had at once.
func (b *bed) free(key string) bool {
	b.t.Helper()
	status, _, _ := b.run("run", "-n", key, "--", "true")
	return status == 0
}

// sleeper holds the key "k" until it is ended. Its command's pid is in the file "pid".
func (b *bed) sleeper(flags ...string) *running {
	b.t.Helper()
	return b.holder("exec sleep 300", flags)
}

// untilGo holds the key "k" until there is a file "go", and ends with a status.
func (b *bed) untilGo(status int, flags ...string) *running {
	b.t.Helper()
	return b.holder("while [ ! -e go ]; do sleep 0.02; done; exit "+itoa(status), flags)
}

func (b *bed) holder(script string, flags []string) *running {
	b.t.Helper()
	r := b.start(slices.Concat([]string{"run"}, flags, []string{"k", "--"}, sh("pid", script))...)
	b.number("pid")
	return r
}
