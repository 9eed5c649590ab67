//go:build unix

package guard

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-go/dibs/cmd/dibs/internal/exit"
	"github.com/dibs-go/dibs/cmd/dibs/internal/signals"
	"github.com/dibs-go/dibs/cmd/dibs/internal/wire"
)

// Args is the guard's command line, as the wrapper writes it.
func Args(control, status uintptr, killAfter time.Duration, command []string) []string {
	return append([]string{Name, strconv.FormatUint(uint64(control), 10), strconv.FormatUint(uint64(status), 10), killAfter.String()}, command...)
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
		exit.Say(os.Stderr, fmt.Sprintf("%s is for dibs run alone to start: %v", Name, err))
		return exit.Usage
	}
	setName()
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
	return &guard{pgid: os.Getpid(), killAfter: killAfter, command: args[4:], status: out, events: make(chan event)}, in, nil
}

// pipe opens an inherited descriptor, and keeps COMMAND from inheriting it: the pipe must end when the guard does.
func pipe(arg string) (*os.File, error) {
	fd, err := strconv.Atoi(arg)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return nil, fmt.Errorf("descriptor %d is no pipe", fd)
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "pipe"), nil
}
