//go:build linux

package main_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// session is a program on a terminal of its own.
type session struct {
	*running
	tty *os.File
}

// onTerminal starts a program as the leader of a session on a new terminal.
func (b *bed) onTerminal(name string, args ...string) *session {
	b.t.Helper()
	r := &running{b: b, cmd: exec.Command(name, args...), out: new(buffer), err: new(buffer)}
	r.cmd.Env, r.cmd.Dir = b.env("DIBS="+binary, "PS1=prompt> ", "TERM=dumb", "BASH_SILENCE_DEPRECATION_WARNING=1"), b.dir
	tty, err := pty.Start(r.cmd)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = r.cmd.Process.Kill(); tty.Close() })
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := tty.Read(buf)
			_, _ = r.out.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	return &session{running: r, tty: tty}
}

func (s *session) keys(text string) {
	s.b.t.Helper()
	if _, err := s.tty.WriteString(text); err != nil {
		s.b.t.Fatal(err)
	}
}

// shows waits for a text on the terminal, and takes note of what came before it as read.
func (s *session) shows(text string) {
	s.b.t.Helper()
	if !until(func() bool { return strings.Contains(s.out.String(), text) }) {
		s.b.t.Fatalf("%q never shows on the terminal: %q", text, s.out.String())
	}
}

func (s *session) ends(status int) {
	s.b.t.Helper()
	if got := s.wait(); got != status {
		s.b.t.Errorf("status %d, want %d; terminal: %q", got, status, s.out.String())
	}
}

// shell starts an interactive shell, with job control.
func (b *bed) shell() *session {
	b.t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		b.t.Fatalf("%v: bash is needed for its job control (apt-get install bash)", err)
	}
	s := b.onTerminal(bash, "--norc", "--noprofile", "--noediting", "-i")
	s.shows("prompt> ")
	return s
}

func TestCommandReadsTheTerminal(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.onTerminal(binary, "run", "k", "--", "sh", "-c", "stty -echo; echo ready; read x; echo got $x; stty echo; exit 3")
	s.shows("ready")
	s.keys("words\n")
	s.shows("got words")
	s.ends(3)
}

func TestCtrlCReachesTheCommand(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.onTerminal(binary, "run", "k", "--", "sh", "-c", "trap 'echo caught; exit 4' INT; echo ready; while :; do sleep 0.02; done")
	s.shows("ready")
	s.keys("\x03")
	s.ends(4)
	s = b.onTerminal(binary, "run", "k", "--", "sh", "-c", "echo ready; exec sleep 300")
	s.shows("ready")
	s.keys("\x03")
	s.ends(130)
}

func TestCtrlCEndsAWait(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	holder := b.sleeper()
	s := b.onTerminal(binary, "run", "k", "--", "touch", "marker")
	b.must("it waits", func() bool { return b.waiters() == 1 })
	s.keys("\x03")
	s.ends(130)
	s.shows("nothing was run")
	holder.signal(syscall.SIGTERM)
	holder.want(143)
}

// Without a shell that could continue it, Ctrl-Z does nothing, as with any program.
func TestCtrlZWithoutAShell(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.onTerminal(binary, "run", "k", "--", "sh", "-c", "stty -echo; echo ready; read x; echo got $x; exit 3")
	s.shows("ready")
	s.keys("\x1a")
	s.keys("words\n")
	s.shows("got words")
	s.ends(3)
}

func TestCtrlZAndForeground(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.shell()
	s.keys(`$DIBS run --ttl 1h k -- sh -c 'echo $$ >pid; read x; echo "got-$x"; exit 3'` + "\n")
	command := b.number("pid")
	for range 2 { // once is chance
		n := strings.Count(s.out.String(), "Stopped")
		s.keys("\x1a")
		b.must("the shell says so", func() bool { return strings.Count(s.out.String(), "Stopped") > n })
		if st := state(command); st != "T" {
			t.Errorf("the command's state is %q", st)
		}
		s.keys("echo shell-is-$((1+1))\n")
		s.shows("shell-is-2")
		s.keys("fg\n")
		b.must("the command goes on", func() bool { return state(command) == "S" })
	}
	s.keys("words\n")
	s.shows("got-words")
	s.keys("echo status-$?\n")
	s.shows("status-3")
	s.keys("exit 0\n")
	s.ends(0)
}

// A job in the background that wants to read is stopped by the terminal, and reads once it is in the foreground.
func TestBackgroundJobReadsTheTerminal(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.shell()
	s.keys(`$DIBS run --ttl 1h k -- sh -c 'echo $$ >pid; read x </dev/tty; echo "got-$x"; exit 3' &` + "\n")
	command := b.number("pid")
	b.must("the command is stopped", func() bool { return state(command) == "T" })
	s.keys("echo shell-is-$((1+1))\n")
	s.shows("shell-is-2")
	b.must("the wrapper is stopped", func() bool { return state(parent(parent(command))) == "T" })
	s.keys("fg\n")
	b.must("the command goes on", func() bool { return state(command) == "S" })
	s.keys("words\n")
	s.shows("got-words")
	s.keys("exit 0\n")
	s.ends(0)
}

// Suspended for longer than its lease: the guard ends the command, and the next one gets the key.
func TestSuspendedJobLosesItsLease(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.shell()
	s.keys(`$DIBS run --ttl 3 k -- "` + self + `" 'tick!' ticks` + "\n")
	b.content("ticks")
	s.keys("\x1a")
	s.shows("Stopped")
	b.inTurn(b.start("run", "k", "--", self, "stamp", b.path("next")))
	s.keys("fg\n")
	s.shows("lock lost")
	s.keys("echo status-$?\n")
	s.shows("status-80")
	s.keys("exit 0\n")
	s.ends(0)
}

// In a pipeline and in a script the terminal is not dibs' alone. A command that reads it gets it when it asks.
func TestPipelineAndScriptOnATerminal(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.onTerminal("sh", "-c", `"$DIBS" run k -- sh -c 'echo $$ >pid; read x; echo "got-$x"' | cat; read y; echo "then-$y"`)
	b.number("pid")
	s.keys("words\n")
	s.shows("got-words")
	s.keys("more\n")
	s.shows("then-more")
	s.ends(0)

	if err := os.WriteFile(b.path("script"), []byte(`"$DIBS" run k -- sh -c 'read x; echo "got-$x"; exit 3'; echo "then-$?"; read y; echo "last-$y"`), 0o700); err != nil {
		t.Fatal(err)
	}
	s = b.shell()
	s.keys("sh script\n")
	s.keys("words\n")
	s.shows("got-words")
	s.shows("then-3")
	s.keys("more\n")
	s.shows("last-more")
	s.keys("exit 0\n")
	s.ends(0)
}

// Ctrl-C ends a script with all in it, as it does without dibs.
func TestCtrlCEndsAScript(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if err := os.WriteFile(b.path("script"), []byte(`"$DIBS" run k -- sh -c 'echo $$ >pid; exec sleep 300'; echo went-on`), 0o700); err != nil {
		t.Fatal(err)
	}
	s := b.shell()
	s.keys("sh script\n")
	command := b.number("pid")
	s.keys("\x03")
	b.must("the command has ended", func() bool { return !alive(command) })
	s.keys("echo status-$?\n")
	s.shows("status-130")
	if strings.Contains(s.out.String(), "went-on\r\n") {
		t.Error("the script went on")
	}
	s.keys("exit 0\n")
	s.ends(0)
}

// The wrapper of a command on a terminal is killed: the command ends, and the shell has its terminal again.
func TestWrapperOnATerminalIsKilled(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.shell()
	s.keys(`$DIBS run --ttl 1h --kill-after 1 k -- "` + self + `" 'tick!' ticks` + "\n")
	b.content("ticks")
	var wrapper int
	b.must("the wrapper is there", func() bool {
		for _, pid := range b.processes() {
			if parent(pid) == s.pid() {
				wrapper = pid
			}
		}
		return wrapper != 0
	})
	_ = syscall.Kill(wrapper, syscall.SIGKILL)
	b.must("only the shell lives", func() bool { return len(b.processes()) == 1 })
	s.keys("echo shell-is-$((1+1))\n")
	s.shows("shell-is-2")
	s.keys("exit 0\n")
	s.ends(0)
}

// On a terminal, too, dibs break asks, and no answer but yes is a yes.
func TestBreakAsksOnATerminal(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := b.sleeper("--note", "the\x1b[31mnote")
	for _, answer := range []string{"\n", "n\n", "\x04", "yesterday\n"} {
		s := b.onTerminal(binary, "break", "k")
		s.shows("[y/N]")
		s.keys(answer)
		s.ends(1)
		s.shows("left as it is")
		if strings.Contains(s.out.String(), "\x1b[31m") {
			t.Errorf("the terminal would obey this: %q", s.out.String())
		}
	}
	if l := b.locks(); len(l) != 1 {
		t.Fatalf("%+v", l)
	}
	s := b.onTerminal(binary, "break", "--now", "k")
	s.shows("[y/N]")
	s.keys("y\n")
	s.ends(0)
	s.shows("broke")
	begin := time.Now()
	b.start("run", "-n", "k", "--", "true").want(0)
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("it was not free at once: %s", took)
	}
	r.signal(syscall.SIGTERM)
	r.want(80, "lock lost")
}
