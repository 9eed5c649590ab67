//go:build linux

package main_test

import (
	"bufio"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// signalledEarly sends a dibs a signal when it has initialized what comes before the drivers of all stores; the rest takes most of its start.
// It cannot come further meanwhile, since nobody reads the trace that it writes of its start.
func (b *bed) signalledEarly(sig syscall.Signal, args ...string) *running {
	b.t.Helper()
	in, out, err := os.Pipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if size, err := unix.FcntlInt(out.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil || size != 4096 {
		b.t.Fatal(size, err)
	}
	r := b.command(args...)
	r.cmd.Stderr = out
	r.cmd.Env = b.env("GODEBUG=inittrace=1")
	r.start()
	out.Close()
	var read []byte
	for char := make([]byte, 1); !strings.Contains(string(read), "/cmd/dibs/internal/guard "); read = append(read, char...) {
		if _, err := in.Read(char); err != nil {
			b.t.Fatalf("%v after %s", err, read)
		}
	}
	if strings.Contains(string(read), "init database/sql ") {
		b.t.Error("the drivers come first")
	}
	r.signal(sig)
	go func() {
		defer in.Close()
		for lines := bufio.NewScanner(in); lines.Scan(); {
			if line := lines.Text(); !strings.HasPrefix(line, "init ") && !strings.HasPrefix(line, "@") {
				_, _ = r.err.Write([]byte(line + "\n"))
			}
		}
	}()
	return r
}

// ends tells how a process has ended: as by a signal, in a shell's eyes.
func (r *running) ends() (status int) {
	r.b.t.Helper()
	_ = r.cmd.Wait()
	ws := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// No signal is lost because it comes while dibs is still starting.
func TestB55_SignalDuringTheStart(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, sig := range ending {
		for range 5 {
			r := b.signalledEarly(sig, "run", "k", "--", "touch", "marker")
			if status := r.ends(); status != 128+int(sig) {
				t.Errorf("%s: status %d; %s", unix.SignalName(sig), status, r.err)
			}
			if slices.Contains(ending[:2], sig) || sig == syscall.SIGTERM {
				continue // nobody has caught it yet
			}
			b.must("it says so", func() bool { return strings.Contains(r.err.String(), "nothing was run") })
			if text := r.err.String(); !strings.HasPrefix(text, `dibs: "k": `+unix.SignalName(sig)+" came before") || strings.Count(text, "\n") != 1 {
				t.Errorf("%s: %q", unix.SignalName(sig), text)
			}
		}
	}
	if b.exists("marker") {
		t.Error("the command was run all the same")
	}
}

// A signal ends the commands that run nothing, and says no more than that by its status.
func TestSignalsEndTheOtherCommands(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, args := range [][]string{{"ls"}, {"doctor"}, {"init"}, {"break", "--yes", "k"}} {
		for _, sig := range ending {
			r := b.signalledEarly(sig, args...)
			if status := r.ends(); status != 128+int(sig) {
				t.Errorf("%q, %s: status %d", args, unix.SignalName(sig), status)
			}
			if text := r.err.String(); text != "" {
				t.Errorf("%q, %s: %.200q", args, unix.SignalName(sig), text)
			}
		}
	}
}
