//go:build unix

package runner

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/dibs-go/dibs/cmd/dibs/internal/guard"
	"github.com/dibs-go/dibs/cmd/dibs/internal/procgroup"
	"github.com/dibs-go/dibs/cmd/dibs/internal/wire"
)

// guardProc is the guard as the wrapper sees it.
type guardProc struct {
	pid     int // of the guard, and of the group that it leads
	tree    *procgroup.Tree
	control *os.File
	said    chan wire.Msg // closed when its pipe ends
	gone    chan struct{} // closed when it has ended; it is not waited for yet, so that its number stays its own
}

// startGuard starts the guard, which then waits for the word to go.
func startGuard(c Command) (*guardProc, error) {
	controlR, controlW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer controlR.Close()
	statusR, statusW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer statusW.Close()

	// When somebody kills the guard, what it had below it is then still ours to wait for; and where dibs is a container's first process,
	// nothing changes.
	heir := procgroup.NewHeir(os.Getpid())
	procgroup.AdoptOrphans()
	// The guard gets its pipe ends under the numbers that they have here, not under 3 and 4: those may be in use by descriptors
	// that COMMAND is to inherit. Nothing else is started from this process, so nobody else inherits them.
	in, out := controlR.Fd(), statusW.Fd()
	for _, fd := range []uintptr{in, out} {
		if _, err := unix.FcntlInt(fd, unix.F_SETFD, 0); err != nil {
			return nil, err
		}
	}
	exe, err := self()
	if err != nil {
		return nil, err
	}
	// Not os.StartProcess, which first starts a process just to find out what the kernel can do.
	pid, err := syscall.ForkExec(exe, guard.Args(in, out, c.KillAfter, c.Args), &syscall.ProcAttr{
		Env:   c.Env,
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("the guard cannot be started: %w", err)
	}
	g := &guardProc{pid: pid, tree: &procgroup.Tree{Group: pid, Heir: heir}, control: controlW, said: make(chan wire.Msg), gone: make(chan struct{})}
	go wire.Receive(statusR, g.said)
	go func() {
		defer close(g.gone)
		watch(g.pid)
	}()
	return g, nil
}

// self is the program to start as the guard. On Linux that is this very program, even if its file was replaced by now.
func self() (string, error) {
	const link = "/proc/self/exe"
	if runtime.GOOS == "linux" {
		if _, err := os.Stat(link); err == nil {
			return link, nil
		}
	}
	exe, err := os.Executable()
	if err != nil && runtime.GOOS == "linux" { // that asks /proc, too
		return "", fmt.Errorf("dibs cannot start its guard, since it does not find itself under /proc: mount it (mount -t proc proc /proc) where dibs runs: %w", err)
	}
	return exe, err
}

func (g *guardProc) send(m wire.Msg) { wire.Send(g.control, m) }

// reap waits for all that is left to wait for, the guard too. From then on its number may be another's.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err != syscall.EINTR && (err != nil || pid == 0) {
			return
		}
	}
}
