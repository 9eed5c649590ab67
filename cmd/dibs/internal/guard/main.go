//go:build unix

package guard

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/dibs-go/dibs/cmd/dibs/internal/digits"
	"github.com/dibs-go/dibs/cmd/dibs/internal/procgroup"
	"github.com/dibs-go/dibs/cmd/dibs/internal/signals"
	"github.com/dibs-go/dibs/cmd/dibs/internal/wire"
)

// Args is the guard's command line, as the wrapper writes it.
func Args(control, status uintptr, killAfter time.Duration, command []string) []string {
	return append([]string{Name, digits.Format(uint64(control)), digits.Format(uint64(status)), killAfter.String()}, command...)
}

// Main is the guard's life. It returns its exit status, which nobody reads: what there is to say goes through the pipe.
func Main(args []string) int {
	// The group's signals are meant for COMMAND and reach the guard because it is in the group. It catches them and does nothing
	// (the channel is never read). Ignoring them would be inherited by COMMAND.
	caught := make(chan os.Signal, 1)
	signals.Catch(caught, signals.Ending...)
	signals.Catch(caught, signals.Running...)
	signals.Catch(caught, signals.Stopping...)
	signals.Catch(caught, syscall.SIGPIPE)

	g, control, err := fromArgs(args)
	if err != nil {
		_, _ = os.Stderr.WriteString("dibs: " + Name + " is for dibs run alone to start: " + err.Error() + "\n")
		return usage
	}
	setName()
	// So all that COMMAND starts stays below this process, and can be found, as long as this process lives.
	procgroup.AdoptOrphans()
	msgs := make(chan wire.Msg)
	go wire.Receive(control, msgs)
	return g.live(msgs)
}

func fromArgs(args []string) (g *guard, control *os.File, err error) {
	if len(args) < 5 {
		return nil, nil, errors.New("arguments are missing")
	}
	in, err := pipe(args[1])
	if err != nil {
		return nil, nil, err
	}
	out, err := pipe(args[2])
	if err != nil {
		return nil, nil, err
	}
	killAfter, err := time.ParseDuration(args[3])
	if err != nil {
		return nil, nil, err
	}
	// Its last act is to kill its group: that must be its own.
	if syscall.Getpgrp() != os.Getpid() {
		return nil, nil, errors.New("it must lead a process group")
	}
	return &guard{tree: &procgroup.Tree{Group: os.Getpid()}, killAfter: killAfter, command: args[4:], status: out, events: make(chan event)}, in, nil
}

// pipe opens an inherited descriptor, and keeps COMMAND from inheriting it: the pipe must end when the guard does.
func pipe(arg string) (*os.File, error) {
	n, ok := digits.Parse(arg, 10)
	fd := int(n)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); !ok || err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		return nil, errors.New("descriptor " + arg + " is no pipe")
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "pipe"), nil
}
