//go:build unix && !linux

package runner

import "syscall"

// watch returns when the guard has ended, and continues a guard that was stopped, which could not keep its time. It has
// to wait for the guard; the number of a group is not given out again while the group has members.
func watch(guard int) {
	for {
		var ws syscall.WaitStatus
		_, err := syscall.Wait4(guard, &ws, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err == nil && ws.Stopped():
			_ = syscall.Kill(guard, syscall.SIGCONT)
		default:
			return
		}
	}
}
