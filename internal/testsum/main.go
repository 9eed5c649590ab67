// Command testsum runs the checks and tests of this repository and ends with one line that says how many passed, failed and
// were skipped:
//
//	go run ./internal/testsum [-check NAME=COMMAND]... [-again COMMAND] -- go test -json PACKAGE...
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
// # Again
//
// With -again, a test that failed is run once more, by itself, with nothing beside it, as COMMAND PATTERN PACKAGE ("go test -json -count=3 -run"): what it
// measures is time, and a machine that is busy with all the other tests may be to blame. If it passes it counts as passed, its failure is
// shown nevertheless, and the end of the run names it. That is for single tests: if more than five have failed, or anything that
// is certain whatever the machine does (a test that says GUARANTEE BROKEN, a data race, a panic, a package that does not build, a test that did not end, a
// check), nothing is run again.
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

const usage = "usage: testsum [-check NAME=COMMAND]... [-again COMMAND] -- go test -json PACKAGE..."

// order is what is to be run.
type order struct {
	checks []check
	test   []string
	again  string // a shell command, "" for none
}

func parse(args []string) (o order, err error) {
	for len(args) > 0 {
		switch {
		case args[0] == "--":
			if len(args) == 1 {
				return o, errors.New("no test command after --")
			}
			o.test = args[1:]
			return o, nil
		case args[0] == "-check" && len(args) > 1:
			name, command, ok := strings.Cut(args[1], "=")
			if !ok || name == "" || command == "" {
				return o, fmt.Errorf("-check %q: want NAME=COMMAND", args[1])
			}
			o.checks = append(o.checks, check{name, command})
			args = args[2:]
		case args[0] == "-again" && len(args) > 1:
			o.again = args[1]
			args = args[2:]
		default:
			return o, fmt.Errorf("unexpected %q", args[0])
		}
	}
	return o, errors.New("no test command")
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	if err != nil {
		fmt.Fprintf(stderr, "testsum: %v\n%s\n", err, usage)
		return 2
	}
	s := newSummary(stdout)
	checked := make(chan func() (string, error), len(o.checks))
	go func() { // ends with the last check, which is waited for
		for _, c := range o.checks {
			out, err := command(ctx, "sh", "-c", c.command).CombinedOutput()
			checked <- func() (string, error) { return string(out), err }
		}
	}()
	ended := tests(ctx, s, stderr, o.test)
	for _, c := range o.checks {
		s.check(c.name, <-checked)
	}
	s.ended(ended)
	s.again(ctx, stderr, o.again)
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
