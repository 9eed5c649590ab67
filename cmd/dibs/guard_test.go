//go:build linux

package main_test

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ticker is a command that shows how long it lives. With "tick!" it does not end by TERM.
func (b *bed) ticker(how string, flags ...string) *running {
	b.t.Helper()
	r := b.start(append(append([]string{"run"}, flags...), "k", "--", self, how, b.path("ticks"))...)
	b.content("ticks")
	return r
}

// hard: a command that is hard to stop is stopped on each kind of store, an easy one on one of them.
func hard(how string) []string {
	if how == "tick!" {
		return stores
	}
	return stores[:1]
}

// next is another that waits for the key, and writes down when it got it.
func (b *bed) next() *running {
	b.t.Helper()
	r := b.start("run", "k", "--", self, "stamp", b.path("next"))
	b.must("the next one waits", func() bool { return b.waiters() == 1 })
	return r
}

// inTurn is what all of this is for: worker 1 has ended before worker 2 starts.
func (b *bed) inTurn(next *running) {
	b.t.Helper()
	next.want(0)
	if last, first := b.lastTick("ticks"), b.number("next"); last >= first {
		b.t.Errorf("two workers at once for %s", time.Duration(last-first))
	}
}

// children finds the guard and the command of a run.
func (b *bed) children(r *running) (guard, command int) {
	b.t.Helper()
	b.must("guard and command are there", func() bool {
		for _, pid := range b.processes() {
			if p := parent(pid); p == r.pid() {
				guard = pid
			} else if p == guard && guard != 0 {
				command = pid
			}
		}
		return guard != 0 && command != 0
	})
	return guard, command
}

func TestB56_WrapperIsFrozen(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"tick", "tick!"} {
		t.Run(how, func(t *testing.T) {
			on(t, hard(how), func(t *testing.T, b *bed) {
				r := b.ticker(how, "--ttl", "2")
				next := b.next()
				r.freeze()
				b.inTurn(next)
				r.signal(syscall.SIGCONT)
				r.want(80, `"k"`, "lock lost", "COMMAND was stopped")
			})
		})
	}
}

func TestB53_WrapperIsKilled(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"tick", "tick!"} {
		t.Run(how, func(t *testing.T) {
			on(t, hard(how), func(t *testing.T, b *bed) {
				r := b.ticker(how, "--ttl", "3")
				next := b.next()
				r.signal(syscall.SIGKILL)
				b.inTurn(next)
			})
		})
	}
}

// A long lease: the command ends at once all the same, and does not wait for the lease's end.
func TestB53_WrapperIsKilledLongBeforeTheLeaseEnds(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := b.ticker("tick!", "--ttl", "1h", "--kill-after", "0.5")
	r.signal(syscall.SIGKILL)
	b.must("nothing lives", func() bool { return len(b.processes()) == 0 })
}

func TestB56_StoreIsAway(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"tick", "tick!"} {
		t.Run(how, func(t *testing.T) {
			on(t, hard(how), func(t *testing.T, b *bed) {
				r := b.ticker(how, "--ttl", "2")
				next := b.next()
				unblock := b.blockStore()
				r.want(80, `"k"`, "lock lost", b.named)
				unblock()
				b.inTurn(next)
			})
		})
	}
}

// TERM was sent; then a renewal succeeds. The command was told to end, so it is over, and not a success.
func TestB56_StoreComesBackTooLate(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bed) {
		r := b.start(append([]string{"run", "--ttl", "6", "k", "--"}, sh("pid", "exec 2>&-; trap 'touch term' TERM; while :; do sleep 0.02; done")...)...)
		b.number("pid")
		unblock := b.blockStore()
		b.must("TERM comes", func() bool { return b.exists("term") })
		unblock()
		r.want(80, "lock lost")
	})
}

func TestB01_BrokenLockStopsTheCommand(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"tick", "tick!"} {
		t.Run(how, func(t *testing.T) {
			on(t, hard(how), func(t *testing.T, b *bed) {
				r := b.ticker(how, "--ttl", "3")
				next := b.next()
				if status, _, stderr := b.run("break", "--yes", "k"); status != 0 {
					t.Fatal(stderr)
				}
				r.want(80, `"k"`, "lock lost")
				b.inTurn(next)
			})
		})
	}
}

// The command ends by itself before the next renewal would have noticed: it was not alone all the same.
func TestB01_BrokenLockIsToldAtTheEnd(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bed) {
		r := b.untilGo(3)
		if status, _, stderr := b.run("break", "--yes", "--now", "k"); status != 0 {
			t.Fatal(stderr)
		}
		b.touch("go")
		r.want(80, "lock lost", "COMMAND had not ended by then, and ended by itself with status 3")
	})
}

func TestB08_MaxHold(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"tick", "tick!"} {
		t.Run(how, func(t *testing.T) {
			on(t, hard(how), func(t *testing.T, b *bed) {
				r := b.ticker(how, "--ttl", "3", "--max-hold", "3")
				next := b.next()
				r.want(81, `"k"`, "--max-hold 3s")
				b.inTurn(next)
			})
		})
	}
}

// Too long before it began: that is the max hold all the same, and no loss.
func TestB08_MaxHoldIsOverAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.start("run", "--max-hold", "1ns", "k", "--", "sleep", "300").want(81, "--max-hold 1ns")
}

func TestB53_GuardIsKilled(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"tick", "tick!"} {
		t.Run(how, func(t *testing.T) {
			on(t, hard(how), func(t *testing.T, b *bed) {
				r := b.ticker(how, "--ttl", "3")
				next := b.next()
				guard, _ := b.children(r)
				_ = syscall.Kill(guard, syscall.SIGKILL)
				r.want(80, `"k"`, "guard")
				b.inTurn(next)
			})
		})
	}
}

// Also without its guard a command gets the time to end by itself, and that is no success.
func TestB53_GuardIsKilledAndTheCommandCleansUp(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := b.start(append([]string{"run", "k", "--"}, sh("pid", "exec 2>&-; trap 'touch term; exit 0' TERM; while :; do sleep 0.02; done")...)...)
	_ = syscall.Kill(parent(b.number("pid")), syscall.SIGKILL)
	r.want(80, "guard")
	if !b.exists("term") {
		t.Error("it was not asked to end")
	}
	if !b.free("k") {
		t.Error("the key is not free")
	}
}

// wakeUps is how often a process' main thread has gone to sleep.
func wakeUps(pid int) int {
	status, _ := os.ReadFile("/proc/" + itoa(pid) + "/status")
	_, rest, _ := strings.Cut(string(status), "\nvoluntary_ctxt_switches:\t")
	n, _, _ := strings.Cut(rest, "\n")
	switches, _ := strconv.Atoi(n)
	return switches
}

// A guard that is stopped cannot keep its time, so it is continued.
func TestGuardIsStopped(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := b.ticker("tick!", "--ttl", "2")
	next := b.next()
	guard, _ := b.children(r)
	// It is stopped for so short a time that one seldom sees it. But it wakes up to be stopped, and is not stopped in the end.
	before := wakeUps(guard)
	_ = syscall.Kill(guard, syscall.SIGSTOP)
	b.must("the guard was stopped and goes on", func() bool { return wakeUps(guard) > before && state(guard) != "T" })
	r.freeze()
	b.inTurn(next)
	r.signal(syscall.SIGCONT)
	r.want(80, "lock lost")
}

// The guard is there before the lock is. Killed while it has nothing to do, it is replaced.
func TestGuardIsKilledDuringTheWait(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bed) {
		holder := b.sleeper()
		r := b.start("run", "k", "--", "sh", "-c", "exit 3")
		guard := 0
		b.must("it waits, with its guard", func() bool {
			for _, pid := range b.processes() {
				if parent(pid) == r.pid() {
					guard = pid
				}
			}
			return guard != 0 && b.waiters() == 1
		})
		_ = syscall.Kill(guard, syscall.SIGKILL)
		b.must("the guard has ended, with all its threads", func() bool {
			threads, _ := os.ReadDir("/proc/" + itoa(guard) + "/task")
			return !alive(guard) && len(threads) <= 1
		})
		holder.signal(syscall.SIGTERM)
		holder.want(143)
		r.want(3)
	})
}

// Guard and command die, the wrapper lives: the key is free as soon as nothing of the group is left.
func TestGuardAndCommandAreKilled(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := b.ticker("tick", "--ttl", "1h", "--kill-after", "0.5")
	next := b.next()
	guard, command := b.children(r)
	_ = syscall.Kill(guard, syscall.SIGKILL)
	_ = syscall.Kill(command, syscall.SIGKILL)
	r.want(80, "guard")
	b.inTurn(next)
}

// A stopped command has not ended: its lease goes on.
func TestCommandIsStopped(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bed) {
		r := b.untilGo(9, "--ttl", "3")
		command := b.number("pid")
		before := b.locks()[0]
		_ = syscall.Kill(command, syscall.SIGSTOP)
		b.must("the command is stopped", func() bool { return state(command) == "T" })
		stopped := time.Now()
		b.must("a TTL has passed", func() bool { return time.Since(stopped) > 4*time.Second })
		if now := b.locks(); len(now) != 1 || now[0].Token != before.Token {
			t.Errorf("the lease was %v and is %v", before, now)
		}
		b.touch("go")
		_ = syscall.Kill(command, syscall.SIGCONT)
		r.want(9)
	})
}

// A stopped command must hear of the TERM, and a group of stopped processes must end as any other.
func TestStoppedCommandIsEndedWithTheLease(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := b.start(append([]string{"run", "--ttl", "3", "k", "--"}, sh("pid", "exec 2>&-; trap 'touch term; exit 0' TERM; while :; do sleep 0.02; done")...)...)
	command := b.number("pid")
	_ = syscall.Kill(command, syscall.SIGSTOP)
	b.must("the command is stopped", func() bool { return state(command) == "T" })
	r.freeze()
	b.must("TERM is heard", func() bool { return b.exists("term") })
	b.must("the command has ended", func() bool { return !alive(command) })
	r.signal(syscall.SIGCONT)
	r.want(80, "lock lost")
}

// The command ends by TERM; what it has started does not. It must end too, before the key passes on.
func TestB53_GrandchildrenEndToo(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"wrapper frozen", "wrapper killed", "store away", "max hold", "guard killed"} {
		kinds := stores[:1]
		if who == "store away" {
			kinds = stores
		}
		t.Run(who, func(t *testing.T) {
			on(t, kinds, func(t *testing.T, b *bed) {
				flags := []string{"run", "--ttl", "3"}
				if who == "max hold" {
					flags = append(flags, "--max-hold", "3")
				}
				r := b.start(append(append(flags, "k", "--", "sh", "-c", `"$0" 'tick!' ticks & echo $! >child; wait`), self)...)
				child := b.number("child")
				b.content("ticks")
				next := b.next()
				guard, command := parent(parent(child)), parent(child)
				unblock := func() {}
				switch who {
				case "wrapper frozen":
					r.freeze()
				case "wrapper killed":
					r.signal(syscall.SIGKILL)
				case "guard killed":
					_ = syscall.Kill(guard, syscall.SIGKILL)
				case "store away":
					unblock = b.blockStore()
				}
				b.must("the command has ended", func() bool { return !alive(command) })
				b.must("its child has ended", func() bool { return !alive(child) })
				unblock()
				b.inTurn(next)
				switch who {
				case "wrapper frozen":
					r.signal(syscall.SIGCONT)
					r.want(80, "lock lost")
				case "store away":
					r.want(80, "lock lost")
				case "guard killed":
					r.want(80, "guard")
				case "max hold":
					r.want(81, "max-hold")
				}
			})
		})
	}
}

// The wrapper was frozen while its command ended, in time: that is the command's own status.
func TestFrozenWrapperOfACommandThatEndedInTime(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bed) {
		r := b.untilGo(3, "--ttl", "3")
		command := b.number("pid")
		r.freeze()
		b.touch("go")
		b.must("the command has ended", func() bool { return !alive(command) })
		b.start("run", "k", "--", "true").want(0) // waits until the lease has lapsed
		r.signal(syscall.SIGCONT)
		if status := r.wait(); status != 3 {
			t.Errorf("status %d; %s", status, r.err)
		}
		wantLine(t, r.err.String(), "could not be released")
	})
}
