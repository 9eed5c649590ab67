//go:build linux

package main_test

import (
	"fmt"
	"math/rand/v2"
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

	"golang.org/x/sys/unix"
)

// ending are the signals that end a wait, and most commands.
var ending = []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2}

func TestB53_SignalsReachTheCommand(t *testing.T) {
	t.Parallel()
	for _, sig := range ending {
		kinds := stores[:1]
		if sig == syscall.SIGTERM {
			kinds = stores
		}
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			on(t, kinds, func(t *testing.T, b *bed) {
				r := b.start(append([]string{"run", "k", "--"}, sh("pid", "ulimit -c 0; exec sleep 300")...)...)
				command := b.number("pid")
				r.signal(sig)
				r.want(128 + int(sig))
				if alive(command) {
					t.Error("the command lives on")
				}
				if !b.free("k") {
					t.Error("the key is not free")
				}
			})
		})
	}
}

// A command that catches a signal goes on, and dibs with it.
func TestB53_CaughtSignalsEndNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := b.start("run", "k", "--", self, "signals", b.dir)
	command := b.number("pid")
	for _, sig := range noted {
		name := unix.SignalName(sig.(syscall.Signal))
		r.signal(sig.(syscall.Signal))
		b.must(name+" reaches the command", func() bool { return b.exists(name) })
	}
	if !alive(command) || b.free("k") {
		t.Error("a signal that was caught has ended the command, or its lock")
	}
	b.touch("go")
	r.want(8)
}

// TSTP and CONT do what they do, and without a terminal dibs itself is not stopped: its lease goes on.
func TestB53_StopAndContinue(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	// A shell that waits for a child which was stopped before it became another program is not stopped itself, so this one has no children.
	if err := unix.Mkfifo(b.path("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := b.holder("read x <fifo; exit 8", nil)
	command := b.number("pid")
	r.signal(syscall.SIGTSTP)
	b.must("the command is stopped", func() bool { return state(command) == "T" })
	if state(r.pid()) == "T" {
		t.Error("dibs is stopped")
	}
	r.signal(syscall.SIGCONT)
	b.must("the command goes on", func() bool { return state(command) != "T" })
	if err := os.WriteFile(b.path("fifo"), []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.want(8)
}

func TestB55_SignalsEndAWait(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bed) {
		holder := b.sleeper()
		var waiting []*running
		for range ending {
			waiting = append(waiting, b.start("run", "k", "--", "touch", "marker"))
		}
		b.must("all wait", func() bool { return b.waiters() == len(ending) })
		for i, sig := range ending {
			begin := time.Now()
			waiting[i].signal(sig)
			waiting[i].want(128+int(sig), `"k"`, unix.SignalName(sig), "nothing was run")
			if took := time.Since(begin); took > 3*time.Second { // a second, and what a busy machine adds
				t.Errorf("%s: it took %s to end", sig, took)
			}
		}
		holder.signal(syscall.SIGTERM)
		holder.want(143)
		b.start("run", "-w", "5", "k", "--", "true").want(0) // none of them stands in the way any more
		if b.exists("marker") {
			t.Error("a command was run")
		}
	})
}

// A resized terminal and Ctrl-Z mean nothing to a wait.
func TestB55_OtherSignalsDoNotEndAWait(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bed) {
		holder := b.sleeper()
		r := b.command("run", "k", "--", "sh", "-c", "exit 5")
		// A group of its own: one whose parents are all in other sessions would not be stopped by TSTP.
		r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		r.start()
		b.must("it waits", func() bool { return b.waiters() == 1 })
		r.signal(syscall.SIGWINCH)
		r.signal(syscall.SIGTSTP)
		b.must("it is stopped", func() bool { return state(r.pid()) == "T" })
		r.signal(syscall.SIGCONT)
		b.must("it goes on", func() bool { return state(r.pid()) != "T" })
		holder.signal(syscall.SIGTERM)
		holder.want(143)
		r.want(5)
	})
}

// Whenever a signal comes, there is never a command without its wrapper, and never one that was run after "nothing was run".
func TestB55_SignalAtAnyMoment(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bed) {
		workers, rounds := 4, 20 // 600 rounds were run by hand
		if b.served != nil {
			rounds = 8
		}
		var mu sync.Mutex
		seen := map[int]int{}
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := range rounds {
					key := fmt.Sprintf("k%d-%d", w, i) // or a lease that was left would be seen again and again
					marker := fmt.Sprintf("m%d-%d", w, i)
					r := b.start("run", key, "--", "sh", "-c", "ulimit -c 0; echo $$ >"+marker+"; exec sleep 300")
					sig := ending[(w+i)%len(ending)]
					switch i % 4 { // mostly after it has come to its store; how long all of this takes depends on the machine
					case 0:
						sig = syscall.SIGTERM // before dibs has come to its first line, others have their own ways: see TestB55_SignalDuringTheStart
					case 1:
						until(func() bool { return b.exists(marker) })
					default:
						until(func() bool { return b.atStore(r.pid()) || b.exists(marker) })
					}
					span := time.Duration(rand.IntN(50)) * time.Millisecond
					for end := time.Now().Add(span); time.Now().Before(end) && !b.exists(marker); {
						time.Sleep(time.Millisecond)
					}
					begin := time.Now()
					r.signal(sig)
					err := r.cmd.Wait()
					took := time.Since(begin)
					ws := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
					nothing := strings.Contains(r.err.String(), "nothing was run")
					// Before dibs has come to its first line, TERM ends it as it ends any program.
					early := ws.Signaled() && ws.Signal() == sig
					if !early && ws.ExitStatus() != 128+int(sig) {
						t.Errorf("%s: %v, %s", sig, err, r.err)
					}
					if b.exists(marker) && (nothing || early) {
						t.Error("the command was run after all")
					}
					if pid, err := os.ReadFile(b.path(marker)); err == nil {
						if pid, _ := strconv.Atoi(strings.TrimSpace(string(pid))); alive(pid) {
							t.Errorf("the command lives without its wrapper: %d", pid)
						}
					}
					// An acquire under way is taken back, unless its store is so slow that dibs would be gone too late.
					if l := b.locks(key); len(l) != 0 && took < 700*time.Millisecond {
						t.Errorf("the key is not free: %+v", l)
					}
					mu.Lock()
					switch {
					case early:
						seen[0]++
					case nothing:
						seen[1]++
					default:
						seen[2]++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		t.Logf("%d before dibs began, %d before the command was started, %d after", seen[0], seen[1], seen[2])
		if seen[1] == 0 || seen[2] == 0 {
			t.Error("the signals did not come at all kinds of moments, so this proved nothing")
		}
	})
}

// atStore tells whether a process has come to its store: it has the file open, or a connection.
func (b *bed) atStore(pid int) bool {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, l := range links {
		if file, err := os.Readlink(l); err == nil && (file == b.path("locks.db") || b.served != nil && strings.HasPrefix(file, "socket:")) {
			return true
		}
	}
	return false
}

// What nohup has ignored stays ignored, for dibs and for the command.
func TestNohup(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := b.command()
	nohup, err := exec.LookPath("nohup")
	if err != nil {
		t.Fatal(err)
	}
	r.cmd.Path = nohup
	r.cmd.Args = append([]string{"nohup", binary, "run", "k", "--"}, sh("pid", "while [ ! -e go ]; do sleep 0.02; done; exit 8")...)
	r.start()
	command := b.number("pid")
	r.signal(syscall.SIGHUP)
	_ = syscall.Kill(-parent(command), syscall.SIGHUP)
	if mask := ignoredBy(t, command); mask&1 == 0 {
		t.Errorf("the command ignores %x, and not HUP", mask)
	}
	b.touch("go")
	if status := r.wait(); status != 8 {
		t.Errorf("status %d: %s", status, r.err)
	}
}

// The help names those that stay ignored.
func TestWhatStaysIgnored(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := b.command()
	r.cmd.Path = "/bin/sh"
	r.cmd.Args = []string{"sh", "-c", `trap "" HUP INT QUIT TERM USR1 USR2 WINCH TSTP TTIN TTOU; exec "$0" run k -- cat /proc/self/status`, binary}
	r.start().want(0)
	_, help, _ := b.run("run", "--help")
	kept, _, ok := strings.Cut(help, " stay ignored, by COMMAND too")
	kept = kept[strings.LastIndexAny(kept, ".")+1:]
	mask := ignoredIn(t, r.out.String())
	for _, sig := range append([]syscall.Signal{syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU}, ending...) {
		name := strings.TrimPrefix(unix.SignalName(sig), "SIG")
		named := slices.Contains(strings.FieldsFunc(kept, func(r rune) bool { return r < 'A' || r > 'Z' }), name)
		if is := mask&(1<<(sig-1)) != 0; !ok || is != named {
			t.Errorf("%s is ignored: %v; in the help: %v", name, is, named)
		}
	}
}

// Neither wrapper nor guard leaves a mark on the command's signals.
func TestCommandsSignalsAreAsTheyWere(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := b.start("run", "k", "--", "sleep", "300")
	_, command := b.children(r)
	b.must("the command is sleep", func() bool {
		comm, _ := os.ReadFile("/proc/" + itoa(command) + "/comm")
		return string(comm) == "sleep\n"
	})
	bare := exec.Command("sleep", "300")
	if err := bare.Start(); err != nil {
		t.Fatal(err)
	}
	if got, want := ignoredBy(t, command), ignoredBy(t, bare.Process.Pid); got != want {
		t.Errorf("the command ignores %x, and %x without dibs", got, want)
	}
	_ = bare.Process.Kill()
	_ = bare.Wait()
	r.signal(syscall.SIGTERM)
	r.want(143)
}

func ignoredBy(t *testing.T, pid int) uint64 {
	t.Helper()
	status, err := os.ReadFile("/proc/" + itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	return ignoredIn(t, string(status))
}

// ignoredIn reads the mask in a /proc/PID/status.
func ignoredIn(t *testing.T, status string) uint64 {
	t.Helper()
	_, rest, _ := strings.Cut(status, "SigIgn:\t")
	hex, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(hex, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return mask
}
