package runner

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	cldExited  = 1
	cldKilled  = 2
	cldDumped  = 3
	cldStopped = 5
)

// watch returns when the guard has ended, and leaves it to be waited for. Meanwhile it continues a guard that was stopped, which
// could not keep its time, and waits for orphans.
func watch(guard int) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return // ECHILD: there is no guard any more
		}
		pid := childOf(&info)
		switch {
		case pid != guard:
			_ = unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WSTOPPED|unix.WNOHANG, nil)
		case info.Code == cldStopped:
			_ = unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOHANG, nil)
			_ = syscall.Kill(guard, syscall.SIGCONT)
		case info.Code == cldExited, info.Code == cldKilled, info.Code == cldDumped:
			return
		}
	}
}

// childOf reads si_pid, which x/sys does not show. It comes after three ints, where an address may begin.
func childOf(info *unix.Siginfo) int {
	const word = unsafe.Sizeof(uintptr(0))
	offset := (3*unsafe.Sizeof(int32(0)) + word - 1) / word * word
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), offset)))
}
