//go:build unix

package guard

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/dibs-go/dibs/cmd/dibs/internal/exit"
	"github.com/dibs-go/dibs/cmd/dibs/internal/wire"
)

// event is a change of COMMAND's state: it was stopped by a signal, or it ended.
type event struct {
	paused syscall.Signal
	status syscall.WaitStatus
	at     wire.Mono
}

// start runs the command in the guard's own group, with the guard's very descriptors: nothing is copied, so
// nothing has to be waited for but the command itself. On failure it answers with the status that a shell would.
func start(command, env []string) (pid, status int, err error) {
	path, err := lookPath(command[0])
	if err == nil {
		// Not os.StartProcess, which first starts a process just to find out what the kernel can do.
		pid, err = syscall.ForkExec(path, command, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}})
		if err == nil {
			return pid, 0, nil
		}
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return 0, exit.NotRunnable, err
	}
	switch errno {
	case syscall.ENOENT, syscall.ENOTDIR:
		if _, statErr := os.Stat(path); path != "" && statErr == nil {
			return 0, exit.NotFound, fmt.Errorf("%s: the program named in its #! line is not there", path)
		}
		return 0, exit.NotFound, fmt.Errorf("%s: command not found", command[0])
	case syscall.ENOEXEC:
		return 0, exit.NotRunnable, fmt.Errorf("%s: not a program (a script needs a #! line)", path)
	}
	return 0, exit.NotRunnable, fmt.Errorf("%s: %w", command[0], errno)
}

// lookPath finds a command as shells do. (exec.LookPath refuses what it finds in the present directory, even where PATH names it.)
func lookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path, ok := os.LookupEnv("PATH")
	if !ok {
		path = "/usr/local/bin:/usr/bin:/bin" // as shells do; an empty environment has no PATH
	}
	var err error = syscall.ENOENT
	if name == "" {
		return "", err
	}
	for dir := range strings.SplitSeq(path, ":") {
		if dir == "" {
			dir = "."
		}
		file := dir + "/" + name
		if st, statErr := os.Stat(file); statErr != nil || st.IsDir() {
			continue
		}
		if unix.Access(file, unix.X_OK) == nil {
			return file, nil
		}
		err = syscall.EACCES // found, but not to be run; a later directory may have a better one
	}
	return "", err
}

// watch waits for the command, and tells when it is stopped and when it ends.
func watch(pid int, events chan<- event) {
	for {
		var ws syscall.WaitStatus
		_, err := syscall.Wait4(pid, &ws, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err == nil && ws.Stopped():
			events <- event{paused: ws.StopSignal()}
		default:
			events <- event{status: ws, at: wire.Now()}
			return
		}
	}
}
