package procgroup

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// stat is a line of /proc, where head goes as far as the session.
func stat(head, threads, start string) []byte {
	return []byte(head + " 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 " + threads + " 0 " + start + " 9 9 18446744073709551615\n")
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		stat []byte
		want process
	}{
		{stat("7 (sh) S 1 2 3", "1", "99"), process{pid: 7, parent: 1, group: 2, session: 3, start: 99}},
		{stat("7 (a) Z 1 (b) S 4 5 6", "1", "99"), process{pid: 7, parent: 4, group: 5, session: 6, start: 99}},
		{stat("7 (dibs-guard) R 1 7 3", "5", "99"), process{pid: 7, parent: 1, group: 7, session: 3, start: 99, guard: true}},
		{stat("7 ((dibs-guard) R 1 7 3", "5", "99"), process{pid: 7, parent: 1, group: 7, session: 3, start: 99}},
		{stat("7 (x) Z 1 7 3", "1", "99"), process{pid: 7, parent: 1, group: 7, session: 3, start: 99, dead: true}},
		{stat("7 (x) Z 1 7 3", "0", "99"), process{pid: 7, parent: 1, group: 7, session: 3, start: 99, dead: true}},
		{stat("7 (x) Z 1 7 3", "2", "99"), process{pid: 7, parent: 1, group: 7, session: 3, start: 99}},  // its first thread has ended
		{stat("7 (x) Z 1 7 3", "10", "99"), process{pid: 7, parent: 1, group: 7, session: 3, start: 99}}, // and nine others live
		{stat("7 (x) X 1 7 3", "1", "99"), process{pid: 7, parent: 1, group: 7, session: 3, start: 99, dead: true}},
	} {
		if p, ok := parse(7, c.stat); !ok || p != c.want {
			t.Errorf("%s: %+v, %v", c.stat, p, ok)
		}
	}
	whole := string(stat("7 (sh) S 1 2 3", "1", "99"))
	for n := range strings.Index(whole, " 99") {
		if p, ok := parse(7, []byte(whole[:n])); ok {
			t.Errorf("%q: %+v", whole[:n], p)
		}
	}
}

func TestSnapshotIsTheTruth(t *testing.T) {
	if !tells() {
		t.Fatal("/proc does not tell")
	}
	cmd := exec.Command("sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	all := snapshot()
	me, child := all[os.Getpid()], all[cmd.Process.Pid]
	if me.parent != os.Getppid() || child.parent != me.pid || child.session != me.session || child.group != me.group || child.start < me.start || child.dead {
		t.Errorf("%+v, %+v", me, child)
	}
	if !hasChildren() || !child.lives() {
		t.Error("the child lives")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if child.lives() {
		t.Error("the child is dead")
	}
	other := child
	other.pid, other.start = me.pid, me.start+1
	if other.lives() {
		t.Error("another process has its number")
	}
}

// Who descends from whom, by a table as a look may find it.
func TestMembers(t *testing.T) {
	all := map[int]process{
		10: {pid: 10, parent: 1},                             // the wrapper
		11: {pid: 11, parent: 10},                            // a child that it had before
		20: {pid: 20, parent: 10, guard: true},               // the guard
		21: {pid: 21, parent: 20},                            // COMMAND
		22: {pid: 22, parent: 21},                            // another dibs
		23: {pid: 23, parent: 22, guard: true},               // its guard
		24: {pid: 24, parent: 23},                            // its COMMAND
		30: {pid: 30, parent: 31}, 31: {pid: 31, parent: 30}, // read while it changed
		40: {pid: 40, parent: 10}, 41: {pid: 41, parent: 40}, 50: {}, // orphans, once the guard is dead
	}
	tree := &Tree{Group: 20, Heir: Heir{Pid: 10, spare: []process{{pid: 11}}}}
	for pid, want := range map[int]struct{ alive, orphaned, served bool }{
		11: {}, 21: {true, true, false}, 22: {true, true, false}, 23: {true, true, true}, 24: {true, true, true},
		30: {}, 31: {}, 40: {false, true, false}, 41: {false, true, false}, 50: {},
	} {
		p := all[pid]
		if got := tree.descends(all, &p, false); got != want.alive || got && p.served != want.served {
			t.Errorf("%d: %v, %+v", pid, got, p)
		}
		p = all[pid]
		if got := tree.descends(all, &p, true); got != want.orphaned {
			t.Errorf("%d, with a dead guard: %v", pid, got)
		}
	}
}
