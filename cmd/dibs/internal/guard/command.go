//go:build unix

package guard

import (
	"bytes"
	"errors"
	"os"
	"syscall"

	"github.com/dibs-go/dibs/cmd/dibs/internal/wire"
)

// The statuses that a shell would end with, and that of wrong usage.
const (
	usage       = 64
	notRunnable = 126
	notFound    = 127
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
		return 0, notRunnable, err
	}
	switch errno {
	case syscall.ENOENT, syscall.ENOTDIR:
		if _, statErr := os.Stat(path); path != "" && statErr == nil {
			return 0, notFound, errors.New(path + ": the program named in its #! line is not there")
		}
		return 0, notFound, errors.New(command[0] + ": command not found")
	case syscall.ENOEXEC:
		return 0, notRunnable, errors.New(path + ": not a program (a script needs a #! line)")
	}
	return 0, notRunnable, errors.New(command[0] + ": " + errno.Error())
}

// lookPath finds a command as shells do. (exec.LookPath refuses what it finds in the present directory, even where PATH names it.)
func lookPath(name string) (string, error) {
	if bytes.Contains([]byte(name), []byte("/")) {
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
	for dir := range bytes.SplitSeq([]byte(path), []byte(":")) {
		if len(dir) == 0 {
			dir = []byte(".")
		}
		file := string(dir) + "/" + name
		if st, statErr := os.Stat(file); statErr != nil || st.IsDir() {
			continue
		}
		const mayRun = 1 // X_OK
		if syscall.Access(file, mayRun) == nil {
			return file, nil
		}
		err = syscall.EACCES // found, but not to be run; a later directory may have a better one
	}
	return "", err
}

// watch waits for the command, and tells when it is stopped and when it ends; and for what the guard has adopted, of which it tells nothing.
func watch(command int, events chan<- event) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return // nobody is left
		case pid != command:
		case ws.Stopped():
			events <- event{paused: ws.StopSignal()}
		default:
			events <- event{status: ws, at: wire.Now()}
			command = 0 // its number may become another's
		}
	}
}
