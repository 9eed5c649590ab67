//go:build linux

package main_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

// What does not fit together is refused before anything is asked or run, with one line that says how to mend it.
func TestContradictionsAreRefused(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	const run = "k -- touch marker"
	for _, c := range []struct{ args, part string }{
		{"run", "KEY and COMMAND are missing"},
		{"run k", "COMMAND is missing"},
		{"run k --", "COMMAND is missing"},
		{"run --", "KEY and COMMAND are missing"},
		{"run |||", "KEY is empty"},
		{"run -- touch marker", "-- comes before KEY"},
		{"run --ttl 5 -- touch marker", "is a variable of your script not set?"},
		{"run k --wait 3 -- touch marker", "put flags before KEY"},
		{"run k -- |", "COMMAND is an empty word"},
		{"run -n --wait 3 " + run, "-n and --wait contradict"},
		{"run -n --wait 0 " + run, "-n and --wait contradict"},
		{"run --max-hold 1m --min-hold 2m " + run, "raise the one or lower the other"},
		{"run --max-hold 0 " + run, `write "none"`},
		{"run --ttl 0 " + run, "no lock without an end"},
		{"run --ttl forever " + run, "is not a time"},
		{"run --ttl 25h " + run, "at most 24h0m0s"},
		{"run --ttl 20ms " + run, "take 100ms or more"},
		{"run --ttl 99ms " + run, "100ms"},
		{"run --kill-after 10 " + run, "take at most 9s, or raise --ttl to 33s"},
		{"run --ttl 3s --kill-after 800ms " + run, "take at most 700ms, or raise --ttl to 4s"},
		{"run --kill-after forever " + run, "is not a time"},
		{"run --wait soon " + run, `or "forever"`},
		{"run --wait -3 " + run, `negative: write 0, 30s, 5m, 2h, a number of seconds, or "forever"`},
		{"run --min-hold none " + run, "is not a time"},
		{"run --min-hold 25h " + run, "at most 24h0m0s"},
		{"run --busy-status 256 " + run, "0 to 255"},
		{"run --busy-status -1 " + run, "0 to 255"},
		{"run --busy-status x " + run, "--busy-status"},
		{"run --busy-status x " + run, `"x" is no exit status: write a number from 0 to 255: see`},
		{"run --busy-status 99999999999999999999 " + run, "0 to 255"},
		{"run --wait 9999999h " + run, `too long a time: it can be 2562047h0m0s at most, or "forever"`},
		{"run --ttl 9999999h " + run, "24h0m0s at most"},
		{"run --ttl -5s " + run, `"-5s" is negative: write 30s`},
		{"run --no-such-flag " + run, "--no-such-flag"},
		{"run --store", "--store"},
		{"runn " + run, `no command "runn"`},
		{"ls a b", "one PREFIX"},
		{"break", "one KEY"},
		{"break --yes \xff", "not valid UTF-8"},
		{"break --yes " + strings.Repeat("k", 300), "at most 255"},
		{"break --yes --token 0 k", "above 0"},
		{"break --yes --token -5 k", "above 0"},
		{"break --yes --token abc k", `"abc" is no token: tokens are numbers above 0, and dibs ls shows them`},
		{"init x", "no arguments"},
		{"doctor x", "no arguments"},
		{"version x", "no arguments"},
	} {
		args := strings.Fields(c.args)
		for i, a := range args {
			args[i] = strings.Trim(a, "|")
		}
		if c.args == "run |||" {
			args = append(args, "touch", "marker")
		}
		b.start(args...).want(64, c.part)
	}
	if b.exists("marker") || b.exists("locks.db") {
		t.Error("something was done")
	}
}

func TestB38_KeysOfAllLengths(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, n := range []int{1, 63, 64, 65, 190, 191, 192, 255} {
		b.start("run", "-n", strings.Repeat("a", n), "--", "true").want(0)
		if n >= 4 {
			b.start("run", "-n", strings.Repeat("\U0001f512", n/4), "--", "true").want(0)
		}
	}
	for _, n := range []int{256, 300, 1024, 4096} {
		b.start("run", "-n", strings.Repeat("a", n), "--", "touch", "marker").want(64, fmt.Sprint(n), "at most 255")
	}
	b.start("run", "-n", strings.Repeat("\U0001f512", 64), "--", "touch", "marker").want(64, "at most 255")
	b.start("run", "-n", "a\xffb", "--", "touch", "marker").want(64, "not valid UTF-8")
	if b.exists("marker") {
		t.Error("a command was run without its lock")
	}
}

func TestB36_KeysDifferByCase(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bed) {
		var rs []*running
		for i, key := range []string{"Order-A", "order-a", "order-a ", "\u00f6", "o\u0308"} {
			rs = append(rs, b.start(append([]string{"run", "-n", key, "--"}, sh("pid"+itoa(i), "exec sleep 300")...)...))
			b.number("pid" + itoa(i))
		}
		rs[0].signal(syscall.SIGTERM)
		rs[0].want(143)
		if !b.free("Order-A") || b.free("order-a") {
			t.Error("one key's release freed another")
		}
		for _, r := range rs[1:] {
			r.signal(syscall.SIGTERM)
			r.want(143)
		}
	})
}

func TestHelpTeaches(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, c := range [][]string{{"--help"}, {"run", "--help"}, {"run", "-h"}, {"help", "run"}, {}} {
		status, out, stderr := b.run(c...)
		if status != 0 || stderr != "" || !strings.Contains(out, "dibs run nightly -- ./report.sh") {
			t.Errorf("%q: %d, %s%s", c, status, out, stderr)
		}
	}
	_, out, _ := b.run("run", "--help")
	for _, part := range []string{"64 ", "69 ", "75 ", "80 ", "81 ", "126 ", "127 ", "128+n", "--kill-after", "DIBS_TOKEN", "setsid", "mysql://", "tls-ca", "table-prefix"} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is not in the help of run", part)
		}
	}
	_, out, _ = b.run("doctor", "--help")
	for _, part := range []string{"fault", "warning", "--json", "clock", "wait_timeout", "Galera", "SQLite", "Exit status"} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is not in the help of doctor", part)
		}
	}
	_, out, _ = b.run("init", "--help")
	for _, part := range []string{"--print", "GRANT SELECT, INSERT, UPDATE, DELETE ON app.dibs_leases", "CREATE"} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is not in the help of init", part)
		}
	}
}

func TestVersionAndCompletion(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if status, out, _ := b.run("version"); status != 0 || !strings.HasPrefix(out, "dibs ") || strings.Count(out, "\n") != 1 {
		t.Errorf("version: %d, %q", status, out)
	}
	_, want, _ := b.run("version")
	if status, out, stderr := b.run("--version"); status != 0 || out != want || stderr != "" {
		t.Errorf("--version: %d, %q, %q, want %q", status, out, stderr, want)
	}
	if status, out, _ := b.run("version", "--json"); status != 0 || !strings.Contains(out, `"version": "`) || !strings.Contains(out, `"go": "go1.`) {
		t.Errorf("version --json: %d, %q", status, out)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if status, out, _ := b.run("completion", shell); status != 0 || !strings.Contains(out, "dibs") {
			t.Errorf("completion %s: %d", shell, status)
		}
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		r := b.command("completion", shell)
		r.cmd.Stdout = full
		r.start().want(1, "writing the output", "no space left")
		full.Close()
	}
}

// A run within a run of the same key would wait for itself.
func TestNestedRuns(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bed) {
		nested := func(inner string, args ...string) *running {
			return b.start(append([]string{"run", "outer", "--", "sh", "-c", inner, binary}, args...)...)
		}
		nested(`exec "$0" run outer -- touch marker`).want(64, `"outer"`, "around this one")
		nested(`exec "$0" run -n outer -- touch marker`).want(64, "around this one")
		nested(`"$0" run middle -- "$0" run outer -- touch marker`).want(64, `"outer"`, "around this one")
		if b.exists("marker") {
			t.Error("a nested command was run")
		}
		nested(`"$0" run middle -- "$0" run inner -- sh -c 'echo $DIBS_KEY'`).want(0)
		// The same key in another store is another lock.
		nested(`exec "$0" run --store "$1" outer -- true`, "sqlite:"+b.path("other.db")).want(0)
		// The outer run has ended, and its environment lives on: nobody holds the key, or a stranger does.
		var env string
		r := b.start("run", "outer", "--", "sh", "-c", "echo $DIBS_HELD")
		r.want(0)
		env = "DIBS_HELD=" + strings.TrimSpace(r.out.String())
		late := b.command("run", "-n", "outer", "--", "true")
		late.cmd.Env = b.env(env)
		late.start().want(0)
		stranger := b.start(append([]string{"run", "outer", "--"}, sh("pid", "exec sleep 300")...)...)
		b.number("pid")
		late = b.command("run", "-n", "outer", "--", "true")
		late.cmd.Env = b.env(env)
		late.start().want(75, "busy")
		stranger.signal(syscall.SIGTERM)
		stranger.want(143)
		// What is no chain at all is none of ours.
		odd := b.command("run", "outer", "--", "true")
		odd.cmd.Env = b.env("DIBS_HELD=%zz;=;outer=x&outer")
		odd.start().want(0)
		if _, err := os.Stat(b.path("marker")); err == nil {
			t.Error("a nested command was run")
		}
	})
}
