//go:build linux

package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-go/dibs/cmd/dibs/internal/wire"
)

// noted are all signals that dibs passes on.
var noted = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGTSTP,
}

// helperVar makes this test program a command that dibs runs.
const helperVar = "DIBS_TEST_HELPER"

// helper is that command:
//
//	args ...         prints its arguments and its stdin as JSON
//	tick FILE        writes the time into FILE again and again, until it is ended
//	tick! FILE       the same, and TERM does not end it
//	stamp FILE       writes the time into FILE and ends
//	group COMMAND    leaves for a process group of its own, as timeout(1) does, and becomes COMMAND
//	signals DIR      notes each signal that it gets as a file in DIR, and ends with 8 once there is a file DIR/go
func helper(args []string) int {
	switch args[0] {
	case "args":
		in, _ := io.ReadAll(os.Stdin)
		_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"args": args[1:], "stdin": string(in)})
	case "tick!", "tick":
		if args[0] == "tick!" {
			signal.Ignore(syscall.SIGTERM)
		}
		f, err := os.OpenFile(args[1], os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return 1
		}
		for {
			fmt.Fprintln(f, int64(wire.Now()))
			time.Sleep(2 * time.Millisecond)
		}
	case "stamp":
		if err := os.WriteFile(args[1], []byte(strconv.FormatInt(int64(wire.Now()), 10)+"\n"), 0o600); err != nil {
			return 1
		}
	case "group":
		if err := syscall.Setpgid(0, 0); err != nil {
			return 1
		}
		path, err := exec.LookPath(args[1])
		if err != nil {
			return 1
		}
		_ = syscall.Exec(path, args[1:], os.Environ())
		return 1
	case "signals":
		got := make(chan os.Signal, 100)
		signal.Notify(got, noted...)
		_ = os.WriteFile(args[1]+"/pid", []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
		for {
			select {
			case sig := <-got:
				_ = os.WriteFile(args[1]+"/"+unix.SignalName(sig.(syscall.Signal)), nil, 0o600)
			case <-time.After(5 * time.Millisecond):
				if _, err := os.Stat(args[1] + "/go"); err == nil {
					return 8
				}
			}
		}
	default:
		return 2
	}
	return 0
}
