package procgroup

import (
	"bytes"
	"os"
	"syscall"

	"github.com/dibs-go/dibs/cmd/dibs/internal/digits"
)

// GuardName is the name that a guard gives itself, by which other guards know it.
const GuardName = "dibs-guard"

// process is one as /proc shows it.
type process struct {
	pid, parent, group, session int

	start  uint64 // when it began, in ticks since the system did: with pid, what no other process shares
	dead   bool   // it has ended, and was not waited for yet
	guard  bool   // by its name it is the guard of a dibs run
	served bool   // it is, or runs under, the guard of another dibs run than the caller's
}

// is tells whether p and q are one process, whatever has become of it meanwhile.
func (p process) is(q process) bool { return p.pid == q.pid && p.start == q.start }

// lives tells whether it still does, in the session where it was found.
func (p process) lives() bool {
	now, ok := read(p.pid)
	return ok && now.is(p) && now.session == p.session && !now.dead
}

// signal signals it, if it is still there: its number may be another's by now.
func (p process) signal(sig syscall.Signal) {
	if p.lives() {
		signal(p.pid, sig)
	}
}

func selfPid() int { return os.Getpid() }

// tells says whether /proc is there and shows the processes by the numbers that this process knows them by: another namespace's would not.
func tells() bool {
	link, err := os.Readlink("/proc/self")
	pid, ok := digits.Parse(link, 10)
	return err == nil && ok && int(pid) == os.Getpid()
}

// snapshot is all processes by their pids; nil where the system does not tell.
func snapshot() map[int]process {
	if !tells() {
		return nil
	}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	all := make(map[int]process, len(names))
	for _, name := range names {
		pid, ok := digits.Parse(name, 10)
		if !ok {
			continue
		}
		if p, ok := read(int(pid)); ok {
			all[p.pid] = p
		}
	}
	return all
}

// read looks at one process. It is not there if that fails.
func read(pid int) (process, bool) {
	fd, err := syscall.Open("/proc/"+digits.Format(uint64(pid))+"/stat", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return process{}, false
	}
	defer syscall.Close(fd)
	var stat [1024]byte // what is asked of it stands in the first half
	n, err := syscall.Read(fd, stat[:])
	if err != nil {
		return process{}, false
	}
	return parse(pid, stat[:n])
}

// parse reads "pid (name) state parent group session ... start ...". The name may hold anything, brackets too.
func parse(pid int, stat []byte) (p process, ok bool) {
	begin, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if begin < 0 || end < begin {
		return p, false
	}
	const state, parent, group, session, threads, start = 0, 1, 2, 3, 17, 19
	f := bytes.Fields(stat[end+1:])
	if len(f) <= start {
		return p, false
	}
	p.pid, p.guard = pid, string(stat[begin+1:end]) == GuardName
	// The first thread may end before the others do: then this looks like a zombie, and is none.
	alive, _ := digits.Parse(f[threads], 10)
	p.dead = f[state][0] == 'X' || f[state][0] == 'Z' && alive <= 1
	for _, x := range [...]struct {
		field int
		to    *int
	}{{parent, &p.parent}, {group, &p.group}, {session, &p.session}} {
		n, ok := digits.Parse(f[x.field], 10)
		if !ok {
			return p, false
		}
		*x.to = int(n)
	}
	p.start, ok = digits.Parse(f[start], 10)
	return p, ok
}

// hasChildren tells whether this process has any, also such as it did not start itself: another program may have become this one.
func hasChildren() bool {
	const all, exited, noHang, noWait = 0, 4, 1, 0x1000000
	_, _, errno := syscall.RawSyscall6(syscall.SYS_WAITID, all, 0, 0, exited|noHang|noWait, 0, 0)
	return errno != syscall.ECHILD
}

// AdoptOrphans makes this process the parent of all that lose theirs below it. An error means a Linux before 3.4, where nothing can be done about it.
func AdoptOrphans() {
	const setChildSubreaper = 36
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, setChildSubreaper, 1, 0, 0, 0, 0)
}
