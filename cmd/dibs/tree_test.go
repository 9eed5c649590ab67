//go:build linux

package main_test

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// leaving are commands that end with no TERM and run outside of the group that the guard leads; the worker's ticks tell how long.
func leaving() map[string][]string {
	return map[string][]string{
		"timeout":          {"timeout", "100", self, "tick!", "ticks"},
		"timeout inside":   {"sh", "-c", `timeout 100 "$0" tick! ticks; true`, self},
		"itself":           {self, "group", self, "tick!", "ticks"},
		"in the back":      {"sh", "-c", `"$0" group "$0" tick! ticks & wait`, self},
		"without a parent": {"sh", "-c", `sh -c '"$0" group "$0" tick! ticks & ' "$0"; sleep 300`, self},
		"a nested run":     {binary, "run", "inner", "--", self, "tick!", "ticks"},
	}
}

// A process group of its own is no way out: whoever leaves the guard's group is stopped as the others are, before the next one begins.
func TestB53_WhatLeavesTheGroupEndsToo(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"max hold", "wrapper frozen", "wrapper killed", "guard killed", "store away"} {
		for name, command := range leaving() {
			if who != "max hold" && name != "timeout inside" && name != "a nested run" && who+name != "wrapper killed"+"without a parent" {
				continue // all of it was run by hand
			}
			t.Run(who+" "+name, func(t *testing.T) {
				on(t, stores[:1], func(t *testing.T, b *bed) {
					flags := []string{"run", "--ttl", "3", "k", "--"}
					if who == "max hold" {
						flags = []string{"run", "--ttl", "3", "--max-hold", "3", "k", "--"}
					}
					r := b.start(slices.Concat(flags, command)...)
					b.content("ticks")
					next := b.next()
					guard, _ := b.children(r)
					b.endBy(who, r, guard)
					b.inTurn(next)
					b.lateWord(who, r)
				})
			})
		}
	}
}

// endBy makes a command end that will not.
func (b *bed) endBy(who string, r *running, guard int) {
	b.t.Helper()
	switch who {
	case "wrapper frozen":
		r.freeze()
	case "wrapper killed":
		r.signal(syscall.SIGKILL)
	case "guard killed":
		_ = syscall.Kill(guard, syscall.SIGKILL)
	case "store away":
		unblock := b.blockStore()
		r.want(80, "lock lost", "was stopped")
		unblock()
	}
}

// lateWord is what dibs says of it.
func (b *bed) lateWord(who string, r *running) {
	b.t.Helper()
	switch who {
	case "wrapper frozen":
		r.signal(syscall.SIGCONT)
		r.want(80, "lock lost", "was stopped")
	case "guard killed":
		r.want(80, "guard", "was stopped")
	case "max hold":
		r.want(81, "max-hold", "was stopped")
	}
}

// Signals find a command in whatever group it is.
func TestB53_SignalsReachWhatLeftTheGroup(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := b.start("run", "k", "--", self, "group", self, "signals", b.dir)
	command := b.number("pid")
	if stat(command, 2) != itoa(command) {
		t.Fatal("the command has not left the group")
	}
	for _, sig := range noted {
		name := unix.SignalName(sig.(syscall.Signal))
		r.signal(sig.(syscall.Signal))
		b.must(name+" reaches the command", func() bool { return b.exists(name) })
	}
	b.touch("go")
	r.want(8)
}

func TestB53_TimeoutIsEndedByASignal(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := b.start("run", "k", "--", "timeout", "100", "sh", "-c", "echo $$ >pid; exec sleep 300")
	command := b.number("pid")
	r.signal(syscall.SIGTERM)
	r.want(143)
	if alive(command) || !b.free("k") {
		t.Error("the command lives on, or its lock")
	}
}

// A run within a run passes on what it gets, so nobody sends its command the same once more.
func TestSignalsReachANestedCommandOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := b.start(append([]string{"run", "outer", "--", binary, "run", "inner", "--"},
		sh("pid", `exec 2>&-; trap 'echo x >>got' TERM; while [ ! -e go ]; do sleep 0.02; done; exit 8`)...)...)
	b.number("pid")
	r.signal(syscall.SIGTERM)
	b.content("got")
	heard := time.Now()
	b.must("a second one would have come", func() bool { return time.Since(heard) > 300*time.Millisecond })
	b.touch("go")
	r.want(8)
	if got := b.content("got"); got != "x" {
		t.Errorf("TERM came %d times", strings.Count(got, "x"))
	}
}

// What a command starts because of a signal, to clean up, is not sent that signal, in whatever group it is.
func TestCleaningUpIsNotSignalled(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := b.start(append([]string{"run", "k", "--"},
		sh("pid", `trap 'timeout 100 sh -c "sleep 0.3; echo done >clean"; exit 8' TERM; while :; do sleep 0.02; done`)...)...)
	b.number("pid")
	r.signal(syscall.SIGTERM)
	b.must("it ends", func() bool { return !alive(b.number("pid")) })
	if !b.exists("clean") {
		t.Error("it could not clean up")
	}
	r.wait()
}

// A session of its own is the way out, and it is told: what is known to live was not stopped, and its key is not free yet.
func TestWhatLeavesTheSessionIsTold(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"command": `exec setsid sh -c 'echo $$ >pid; exec sleep 300'`,
		"child":   `setsid sh -c 'echo $$ >pid; exec sleep 300' & wait`,
		"daemon":  `setsid sh -c 'echo $$ >pid; sleep 300 & exit' & echo $! >daemon; sleep 300`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			r := b.start("run", "--ttl", "20", "--kill-after", "0.2", "--max-hold", "2", "k", "--", "sh", "-c", script)
			pid := b.number("pid")
			r.want(81, "was told to end", "setsid", "the key stays taken")
			text := r.err.String()
			if strings.Contains(text, "was stopped") {
				t.Errorf("%q", text)
			}
			if name != "daemon" && (!alive(pid) || !strings.Contains(text, "(pid "+itoa(pid)+")")) {
				t.Errorf("%d lives: %v; %s", pid, alive(pid), text)
			}
			b.start("run", "-n", "k", "--", "true").want(75, "busy")
			for _, left := range b.processes() {
				_ = syscall.Kill(left, syscall.SIGKILL)
			}
		})
	}
}

// What a script had in the background before it became dibs is not COMMAND's.
func TestOlderChildrenAreLeftAlone(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"max hold", "guard killed"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			r := b.command()
			shell, err := os.Stat("/bin/sh")
			if err != nil || shell.IsDir() {
				t.Fatal("no shell")
			}
			r.cmd.Path = "/bin/sh"
			r.cmd.Args = []string{"sh", "-c", `sh -c 'sleep 300; true' >/dev/null 2>&1 & echo $! >older; exec "$0" run --max-hold 2 k -- sh -c 'echo $$ >pid; exec sleep 300'`, binary}
			r.start()
			older, command := b.number("older"), b.number("pid")
			if who == "guard killed" {
				_ = syscall.Kill(parent(command), syscall.SIGKILL)
				r.want(80, "was stopped")
			} else {
				r.want(81, "was stopped")
			}
			if !alive(older) || alive(command) {
				t.Errorf("the older child lives: %v; the command lives: %v", alive(older), alive(command))
			}
			for _, left := range b.processes() {
				_ = syscall.Kill(left, syscall.SIGKILL)
			}
		})
	}
}
