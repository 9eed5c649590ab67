//go:build unix && !linux

package procgroup

import "syscall"

// othersAlive: an error of kill(2) is the only thing to go by. While the caller is in the group itself that says nothing.
func othersAlive(pgid, _ int) (alive, known bool) {
	if syscall.Getpgrp() == pgid {
		return false, false
	}
	return syscall.Kill(-pgid, 0) == nil, true
}
