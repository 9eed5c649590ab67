//go:build linux

package main_test

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestListShowsWhoHoldsWhat(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bed) {
		if status, out, _ := b.run("ls", "--json"); status != 0 || out != "[]\n" {
			t.Errorf("nothing held: %d, %q", status, out)
		}
		if status, out, _ := b.run("ls"); status != 0 || strings.Fields(out)[0] != "KEY" || strings.Count(out, "\n") != 1 {
			t.Errorf("nothing held: %d, %q", status, out)
		}
		keys := []string{"a/1", "a/2", "b\x1b[31m\n\u202e"}
		var rs []*running
		for i, k := range keys {
			rs = append(rs, b.start(append([]string{"run", "--note", "say\x1b]0;x\x07 \"hi\" <&>", k, "--"}, sh("pid"+itoa(i), "exec sleep 300")...)...))
			b.number("pid" + itoa(i))
		}
		locks := b.locks()
		if len(locks) != 3 {
			t.Fatalf("%+v", locks)
		}
		for i, l := range locks {
			if l.Key != keys[i] || !strings.HasSuffix(l.Holder, " pid "+itoa(rs[i].pid())) || l.Note != "say\x1b]0;x\x07 \"hi\" <&>" ||
				l.Token <= 0 || l.ExpiresIn <= 0 || l.ExpiresIn > 30 || time.Since(l.Since) > time.Hour {
				t.Errorf("%+v", l)
			}
		}
		if l := b.locks("a/"); len(l) != 2 {
			t.Errorf("with a prefix: %+v", l)
		}
		_, out, _ := b.run("ls", "--json")
		var raw []map[string]any
		if err := json.Unmarshal([]byte(out), &raw); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"key", "holder", "note", "token", "since", "expires_in_seconds"} {
			if _, ok := raw[0][name]; !ok || len(raw[0]) != 6 {
				t.Errorf("%s is not there: %v", name, raw[0])
			}
		}
		if _, err := time.Parse(time.RFC3339, raw[0]["since"].(string)); err != nil {
			t.Error(err)
		}
		_, out, _ = b.run("ls")
		if strings.ContainsAny(out, "\x1b\x07\u202e") || strings.Count(out, "\n") != 4 {
			t.Errorf("the terminal would obey this: %q", out)
		}
		for _, part := range []string{`b\x1b[31m\n\u202e`, `say\x1b]0;x\a "hi" <&>`, "EXPIRES IN", itoa(int(locks[2].Token))} {
			if !strings.Contains(out, part) {
				t.Errorf("%q is not in %q", part, out)
			}
		}
		for _, r := range rs {
			r.signal(syscall.SIGTERM)
			r.want(143)
		}
	})
}

func TestB26_Break(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bed) {
		b.start("break", "--yes", "k").want(1, `"k" is not held`)
		b.start("break", "k").want(1, `"k" is not held`) // there is nothing to ask
		r := b.sleeper("--ttl", "3", "--note", "why")
		token := b.locks()[0].Token
		b.start("break", "k").want(64, "--yes")
		b.start("break", "--yes", "--token", "5", "k").want(1, "another token", "pid "+itoa(r.pid()), "nothing was broken")
		if b.locks()[0].Token != token {
			t.Fatal("it was broken all the same")
		}
		status, out, stderr := b.run("break", "--yes", "--token", itoa(int(token)), "k")
		if status != 0 || stderr != "" {
			t.Errorf("status %d, %s", status, stderr)
		}
		for _, part := range []string{`broke "k"`, "pid " + itoa(r.pid()), "(why)", itoa(int(token)), "at the latest"} {
			if !strings.Contains(out, part) {
				t.Errorf("%q is not in %q", part, out)
			}
		}
		r.want(80, "lock lost")
		b.start("run", "k", "--", "true").want(0)
	})
}

// The holder is dead: the key is free at once, however long its lease.
func TestB26_BreakNow(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bed) {
		r := b.ticker("tick", "--ttl", "24h")
		guard, command := b.children(r)
		for _, pid := range []int{r.pid(), guard, command} {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		before := b.locks()[0].Token
		if status, out, stderr := b.run("break", "--yes", "--now", "k"); status != 0 || !strings.Contains(out, "free now") {
			t.Errorf("%d, %s%s", status, out, stderr)
		}
		next := b.start("run", "-n", "k", "--", "sh", "-c", "echo $DIBS_TOKEN")
		next.want(0)
		if after := strings.TrimSpace(next.out.String()); len(after) != len(itoa(int(before))) || after <= itoa(int(before)) {
			t.Errorf("the token was %d and is %s", before, after)
		}
	})
}

func TestInit(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if status, out, stderr := b.run("init", "--print"); status != 0 || stderr != "" || !strings.Contains(out, "CREATE TABLE") || b.exists("locks.db") {
		t.Errorf("init --print: %d, %s%s", status, out, stderr)
	}
	for range 2 {
		if status, out, stderr := b.run("init"); status != 0 || stderr != "" || !strings.Contains(out, "locks.db is ready") {
			t.Errorf("init: %d, %s%s", status, out, stderr)
		}
	}
}
