// Command testsum runs the checks and tests of this repository and ends with one line that says how many passed, failed and
// were skipped:
//
//	go run ./internal/testsum [-check NAME=COMMAND]... -- go test -json PACKAGE...
//
// Each check is a shell command that is run beside the tests, one after the other; it counts as one, passed or failed, and its
// output is shown, after the tests, if it failed. Of the tests, one line is shown for each package, and the whole output of each one that failed.
//
// # What is counted
//
// Leaves. A test with subtests is counted through them alone, unless it failed although none of them did, or was itself
// skipped: then it counts as one more. A package that failed for a reason that no test of it has (it did not build, panicked
// outside of tests, ran out of time between them) counts as one failed; a test that was started and never ended, because
// its process panicked, exited or ran out of time, as failed too. So no run that went wrong ends with "0 failed".
//
// # Exit status
//
// 0 only if everything passed, something was run, and nothing was skipped: a skipped test proves nothing, and what it would have
// needed can be installed. 1 else, 2 for wrong usage.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// check is a shell command that passes or fails.
type check struct{ name, command string }

const usage = "usage: testsum [-check NAME=COMMAND]... -- go test -json PACKAGE..."

func parse(args []string) (checks []check, test []string, err error) {
	for len(args) > 0 {
		switch {
		case args[0] == "--":
			if len(args) == 1 {
				return nil, nil, errors.New("no test command after --")
			}
			return checks, args[1:], nil
		case args[0] == "-check" && len(args) > 1:
			name, command, ok := strings.Cut(args[1], "=")
			if !ok || name == "" || command == "" {
				return nil, nil, fmt.Errorf("-check %q: want NAME=COMMAND", args[1])
			}
			checks = append(checks, check{name, command})
			args = args[2:]
		default:
			return nil, nil, fmt.Errorf("unexpected %q", args[0])
		}
	}
	return nil, nil, errors.New("no test command")
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	checks, test, err := parse(args)
	if err != nil {
		fmt.Fprintf(stderr, "testsum: %v\n%s\n", err, usage)
		return 2
	}
	s := newSummary(stdout)
	checked := make(chan func() (string, error), len(checks))
	go func() { // ends with the last check, which is waited for
		for _, c := range checks {
			out, err := command(ctx, "sh", "-c", c.command).CombinedOutput()
			checked <- func() (string, error) { return string(out), err }
		}
	}()
	ended := tests(ctx, s, stderr, test)
	for _, c := range checks {
		s.check(c.name, <-checked)
	}
	s.ended(ended)
	return s.close()
}

// tests feeds what the test command prints to the summary, and returns how the command ended.
func tests(ctx context.Context, s *summary, stderr io.Writer, test []string) error {
	cmd := command(ctx, test[0], test[1:]...)
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadBytes('\n') // lines may have any length
		if len(line) > 0 {
			s.line(line)
		}
		if err != nil {
			break
		}
	}
	return cmd.Wait()
}

// command is interrupted, not killed, when the context ends, so that go test can stop the tests and they their servers.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	return cmd
}
