package procgroup

import (
	"bytes"
	"os"

	"github.com/dibs-go/dibs/cmd/dibs/internal/digits"
)

// othersAlive looks through /proc: kill(2) would also count zombies, among them the guard that leads the group.
func othersAlive(pgid, self int) (alive, known bool) {
	dir, err := os.Open("/proc")
	if err != nil {
		return false, false
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return false, false
	}
	for _, name := range names {
		pid, ok := digits.Parse(name, 10)
		if !ok {
			continue
		}
		known = true // this is a proc file system, then
		if int(pid) == self {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // gone by now
		}
		if inGroup(stat, pgid) {
			return true, true
		}
	}
	return false, known
}

// inGroup reads "pid (name) state ppid pgrp ...". The name may hold anything, brackets too.
func inGroup(stat []byte, pgid int) bool {
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 {
		return false
	}
	f := bytes.Fields(stat[i+1:])
	if len(f) < 3 || f[0][0] == 'Z' || f[0][0] == 'X' {
		return false
	}
	group, ok := digits.Parse(f[2], 10)
	return ok && int(group) == pgid
}
