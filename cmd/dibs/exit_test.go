//go:build linux

package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-go/dibs/cmd/dibs/internal/wire"
)

func TestB57_CommandsStatusPassesUnchanged(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(b.path(name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("plain", "no program\n", 0o644)
	write("noshebang", "true\n", 0o755)
	write("badshebang", "#!/no/such/interpreter\n", 0o755)
	for _, c := range []struct {
		command string
		status  int
		line    string
	}{
		{"sh -c|exit 0", 0, ""},
		{"sh -c|exit 1", 1, ""},
		{"sh -c|exit 7", 7, ""},
		{"sh -c|exit 75", 75, ""},
		{"sh -c|exit 124", 124, ""},
		{"sh -c|exit 255", 255, ""},
		{"sh -c|kill -KILL $$", 137, ""},
		{"sh -c|kill -TERM $$", 143, ""},
		{"sh -c|kill -SEGV $$", 139, ""},
		{"no-such-command", 127, "no-such-command: command not found"},
		{"./no-such-file", 127, "./no-such-file: command not found"},
		{"./badshebang", 127, "#! line"},
		{"./plain", 126, "permission denied"},
		{"./noshebang", 126, "#! line"},
		{"/", 126, "permission denied"},
	} {
		t.Run(c.command, func(t *testing.T) {
			t.Parallel()
			argv := []string{"run", strings.NewReplacer("/", "_", " ", "_").Replace(t.Name()), "--"}
			head, tail, ok := strings.Cut(c.command, "|")
			argv = append(argv, strings.Fields(head)...)
			if ok {
				argv = append(argv, tail)
			}
			b := *b
			b.t = t
			if c.line == "" {
				b.start(argv...).want(c.status)
				return
			}
			b.start(argv...).want(c.status, c.line)
		})
	}
}

func TestB57_ArgumentsAndStdinArriveUnchanged(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bed) {
		for _, before := range [][]string{
			{"run", "k", "--"},
			{"run", "k"},
			{"run", "--ttl", "5", "--", "k", "--"},
			{"run", "--", "-k", "--"},
		} {
			args := []string{"-v", "--help", "--ttl", "1", "--", "x y", "", "*"}
			r := b.command(append(append(before, self, "args"), args...)...)
			r.cmd.Stdin = strings.NewReader("in\x00put\n")
			r.start().want(0)
			var got struct {
				Args  []string
				Stdin string
			}
			if err := json.Unmarshal([]byte(r.out.String()), &got); err != nil {
				t.Fatalf("%v: %q", err, r.out)
			}
			if !reflect.DeepEqual(got.Args, args) || got.Stdin != "in\x00put\n" {
				t.Errorf("%q: got %q", before, got)
			}
		}
	})
}

func TestB57_BusyIsNotSuccess(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bed) {
		holder := b.sleeper("--note", "the \x1b[31mnightly")
		marker := []string{"k", "--", "touch", "marker"}
		for _, c := range []struct {
			flags  []string
			status int
			parts  []string
		}{
			{[]string{"-n"}, 75, []string{`"k" is busy`, "pid " + itoa(holder.pid()), `the \x1b[31mnightly`, "s left", b.named, "nothing was run"}},
			{[]string{"--wait", "0"}, 75, []string{"busy"}},
			{[]string{"-w", "1"}, 75, []string{"busy after a wait of 1s"}},
			{[]string{"-w1500ms"}, 75, []string{"busy"}},
			{[]string{"-n", "--busy-status", "0"}, 0, []string{"busy"}},
			{[]string{"-n", "--busy-status", "255"}, 255, []string{"busy"}},
			{[]string{"-n", "--quiet"}, 75, []string{"busy"}},
			{[]string{"-nq", "--busy-status", "3"}, 3, nil},
		} {
			b.start(append(append([]string{"run"}, c.flags...), marker...)...).want(c.status, c.parts...)
		}
		if b.exists("marker") {
			t.Error("a command was run without its lock")
		}
		holder.signal(syscall.SIGTERM)
		holder.want(143)
		b.start(append([]string{"run", "-n"}, marker...)...).want(0)
		if !b.exists("marker") {
			t.Error("a command was not run with its lock")
		}
	})
}

func TestB57_StoreCannotBeReached(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if err := os.WriteFile(b.path("text"), []byte(strings.Repeat("no database\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{b.path("no/such/folder/x.db"), b.dir, b.path("text")} {
		b.start("run", "--store", "sqlite:"+path, "k", "--", "touch", "marker").want(69, path)
		b.start("ls", "--store", "sqlite:"+path).want(69, path)
		b.start("init", "--store", "sqlite:"+path).want(69, path)
	}
	if b.exists("marker") {
		t.Error("a command was run without its lock")
	}
}

// The command's error stays the status when the release fails.
func TestB23_ReleaseFailsAfterTheCommandFailed(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bed) {
		r := b.untilGo(3)
		unblock := b.blockStore()
		defer unblock()
		b.touch("go")
		r.want(3, `"k"`, "could not be released", b.named, "free in 35s at the latest")
		if text := r.err.String(); strings.Count(text, "at the latest") != 1 || strings.Contains(text, "30s") || strings.Contains(text, "background") {
			t.Errorf("%q says more than one time, or what a process that ends cannot do", text)
		}
	})
}

// A short job keeps its key for the min hold, and does not wait for it.
func TestMinHoldOutlivesTheCommand(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bed) {
		begin := wire.Now()
		b.start("run", "--min-hold", "60", "k", "--", "true").want(0)
		if took := time.Duration(wire.Now() - begin); took > 30*time.Second {
			t.Errorf("it took %s", took)
		}
		b.start("run", "-n", "k", "--", "true").want(75, "busy")
		if l := b.locks(); len(l) != 1 || !l[0].Ending {
			t.Errorf("it ends by itself, and ls shows %+v", l)
		}
		if _, out, _ := b.run("ls"); !strings.Contains(out, "s, not renewed") {
			t.Errorf("ls does not say that it ends: %s", out)
		}
		// It is as good as broken, so breaking it changes nothing, except at once.
		status, out, stderr := b.run("break", "--yes", "k")
		for _, part := range []string{`"k": held by`, "nothing was changed", "--now"} {
			if status != 0 || stderr != "" || !strings.Contains(out, part) || strings.Contains(out, "broke ") {
				t.Errorf("break: %d, %q, %s", status, out, stderr)
			}
		}
		if status, out, stderr = b.run("break", "--yes", "--now", "k"); status != 0 || !strings.Contains(out, "it is free now") {
			t.Errorf("break --now: %d, %q, %s", status, out, stderr)
		}
		b.start("run", "-n", "k", "--", "true").want(0)
	})
}

// What the command finds: its variables, its descriptors, its group.
func TestCommandsSurroundings(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bed) {
		r := b.command("run", "k", "--", "sh", "-c", `echo $DIBS_KEY $DIBS_TOKEN; ls /proc/self/fd | tr "\n" " "; cat <&3; cat <&4; echo $$ >pid; while :; do sleep 0.05; done`)
		// Descriptors of the caller come through, and none of dibs' own with them.
		for _, text := range []string{"three\n", "four\n"} {
			in, out, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = out.WriteString(text)
			out.Close()
			r.cmd.ExtraFiles = append(r.cmd.ExtraFiles, in)
			defer in.Close()
		}
		bare := exec.Command("sh", "-c", `ls /proc/self/fd | tr "\n" " "`)
		bare.ExtraFiles = r.cmd.ExtraFiles
		bare.Stdin, bare.Stderr = r.cmd.Stdin, os.Stderr
		want, err := bare.Output()
		if err != nil {
			t.Fatal(err)
		}
		r.cmd.Env = b.env("DIBS_KEY=old", "DIBS_TOKEN=old")
		r.start()
		pid := b.number("pid")
		b.must("all is printed", func() bool { return strings.Contains(r.out.String(), "four") })
		lines := strings.Split(r.out.String(), "\n")
		token := b.locks()[0].Token
		if want := "k " + itoa(int(token)); lines[0] != want {
			t.Errorf("environment: %q, want %q", lines[0], want)
		}
		if lines[1] != string(want)+"three" || lines[2] != "four" {
			t.Errorf("descriptors: %q", lines[1:])
		}
		env, _ := os.ReadFile("/proc/" + itoa(pid) + "/environ")
		if strings.Contains(string(env), "old") {
			t.Errorf("old variables are left: %q", env)
		}
		guard := parent(pid)
		if stat(pid, 2) != itoa(guard) || stat(guard, 2) != itoa(guard) || parent(guard) != r.pid() {
			t.Errorf("the guard %d does not lead the command's group %s", guard, stat(pid, 2))
		}
		if comm, _ := os.ReadFile("/proc/" + itoa(guard) + "/comm"); string(comm) != "dibs-guard\n" {
			t.Errorf("the guard is called %q", comm)
		}
		r.signal(syscall.SIGTERM)
		r.want(143)
	})
}

// A child that stays in the background with the output open holds nobody up, and is left alone.
func TestBackgroundChildHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	r := b.command("run", "k", "--", "sh", "-c", "sleep 300 & echo $! >pid; exit 4")
	r.cmd.Stdout, r.cmd.Stderr = out, out
	r.start()
	out.Close()
	if status := r.wait(); status != 4 {
		t.Errorf("status %d", status)
	}
	child := b.number("pid")
	if !alive(child) {
		t.Error("the background child was ended")
	}
	if !b.free("k") {
		t.Error("the key is not free")
	}
	_ = syscall.Kill(child, syscall.SIGKILL)
}

func TestCommandClosesItsOutputEarly(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.start(append([]string{"run", "k", "--"}, sh("pid", "exec >&- 2>&-; while [ ! -e go ]; do sleep 0.02; done; exit 5")...)...)
	b.number("pid")
	if b.free("k") {
		t.Error("the key is free while the command runs")
	}
	b.touch("go")
	b.must("the key is free", func() bool { return b.free("k") })
}

// Nobody reads stderr: the notice about the store must not end dibs.
func TestClosedStderr(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in.Close()
	r := b.command("run", "--store-file", "unread", "k", "--", "sh", "-c", "exit 6")
	r.cmd.Stderr = out
	r.start()
	out.Close()
	r.want(6)
}

// Even without stdin, stdout and stderr.
func TestNoDescriptorsAtAll(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	sh := exec.Command("sh", "-c", `exec <&- >&- 2>&-; "$0" run k -- sh -c "exit 7"`, binary)
	sh.Env, sh.Dir = b.env(), b.dir
	if err := sh.Run(); err == nil || sh.ProcessState.ExitCode() != 7 {
		t.Errorf("status %d, %v", sh.ProcessState.ExitCode(), err)
	}
}
