//go:build linux

package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-go/dibs/internal/testenv"
)

// finding is what dibs doctor --json shows of one.
type finding struct{ Check, Level, Found, Advice string }

// doctor runs dibs doctor in both forms, and requires that they and the status agree. The findings are by check; of several the worst.
func (b *bed) doctor(status int, args ...string) map[string]finding {
	b.t.Helper()
	_, table, _ := b.run(append([]string{"doctor"}, args...)...)
	r := b.start(append([]string{"doctor", "--json"}, args...)...)
	if got := r.wait(); got != status {
		b.t.Errorf("dibs doctor: status %d, want %d: %s%s", got, status, r.out, r.err)
	}
	var raw []map[string]string
	var list []finding
	if err := json.Unmarshal([]byte(r.out.String()), &raw); err != nil {
		b.t.Fatalf("%v: %s", err, r.out)
	}
	if err := json.Unmarshal([]byte(r.out.String()), &list); err != nil {
		b.t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
	if strings.Join(strings.Fields(lines[0]), " ") != "CHECK LEVEL FOUND" {
		b.t.Errorf("the table begins with %q", lines[0])
	}
	lines = lines[1:]
	rank := map[string]int{"ok": 1, "warning": 2, "fault": 3}
	worst, most := make(map[string]finding), 0
	for i, f := range list {
		if rank[f.Level] == 0 || len(raw[i]) != 4 || f.Check == "" || f.Found == "" {
			b.t.Errorf("%v", raw[i])
		}
		most = max(most, rank[f.Level])
		if rank[f.Level] > rank[worst[f.Check].Level] {
			worst[f.Check] = f
		}
		// Figures differ from one run to the next, so the texts are not compared.
		if len(lines) == 0 || !strings.HasPrefix(lines[0], f.Check+" ") || !strings.Contains(lines[0], " "+f.Level+" ") {
			b.t.Fatalf("where %q should be, the table has %q", f.Check, lines)
		}
		lines = lines[1:]
		if f.Advice != "" {
			if len(lines) == 0 || !strings.HasPrefix(strings.TrimSpace(lines[0]), "what to do: ") {
				b.t.Fatalf("where the advice for %q should be, the table has %q", f.Check, lines)
			}
			lines = lines[1:]
		}
	}
	if len(lines) > 0 {
		b.t.Errorf("the table has more: %q", lines)
	}
	if (most == 3) != (status == 1) {
		b.t.Errorf("status %d with %s", status, r.out)
	}
	for _, secret := range []string{"hunter2"} {
		if strings.Contains(table+r.out.String()+r.err.String(), secret) {
			b.t.Errorf("it shows a password: %s%s", r.out, r.err)
		}
	}
	if status == 1 {
		wantLine(b.t, r.err.String(), "fault")
	}
	return worst
}

func (f finding) want(t *testing.T, level string, parts ...string) {
	t.Helper()
	text := f.Found + "; " + f.Advice
	if f.Level != level {
		t.Errorf("%+v, want level %s", f, level)
	}
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%+v does not say %q", f, p)
		}
	}
}

// A store that is as it should be, a fault in it, and a store that is not there.
func TestDoctor(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bed) {
		r := b.sleeper()
		found := b.doctor(0)
		found["store"].want(t, "ok", "from DIBS_STORE", b.named)
		found["tables"].want(t, "ok")
		found["writes"].want(t, "ok")
		r.kill()
		if b.served == nil {
			b.corruptFile()
			b.doctor(1)["open"].want(t, "fault", "not an SQLite database", "give another path")
			b.store = "sqlite:" + filepath.Join(b.dir, "no", "such.db")
			b.doctor(1)["open"].want(t, "fault", "folder", "create it")
			b.start("doctor").want(1, "a fault: open")
			return
		}
		found["clock"].want(t, "ok")
		found["rights"].want(t, "ok")
		found["replica"].want(t, "warning", "not told to this user")
		a := b.user()
		b.exec(b.admin, "GRANT SELECT, INSERT, UPDATE ON "+b.database+".dibs_leases TO "+a.User+"@'%'")
		b.exec(b.admin, "GRANT SELECT, UPDATE ON "+b.database+".dibs_meta TO "+a.User+"@'%'")
		b.exec(b.admin, "ALTER TABLE dibs_leases MODIFY expires DATETIME NOT NULL, ADD UNIQUE KEY u (holder(20))")
		b.store = b.url(a, b.wire.addr, "?wait_timeout=5&autocommit=0")
		found = b.doctor(1)
		found["store"].want(t, "ok", a.User+":xxxxx@")
		found["rights"].want(t, "fault", "DELETE command denied", "GRANT")
		found["tables"].want(t, "fault")
		found["wait_timeout"].want(t, "warning", "5 s")
		found["autocommit"].want(t, "fault", "take autocommit=0 out of the store's URL")
		b.start("doctor").want(1, "has 4 faults: autocommit, tables, rights")
		b.store = b.url(testenv.Account{User: a.User, Password: "hunter2x"}, b.wire.addr, "")
		b.doctor(1)["connection"].want(t, "fault", "user and password in the store's URL")
		b.store = b.url(a, closedAddr(t), "")
		found = b.doctor(1)
		found["connection"].want(t, "fault", "connection refused", "host and port in the store's URL")
		if len(found) != 2 {
			t.Errorf("%+v", found)
		}
		b.connectionsEnd()
	})
}

// kill ends a dibs and its command, and waits for it.
func (r *running) kill() {
	r.b.t.Helper()
	_ = r.cmd.Process.Signal(os.Interrupt)
	r.wait()
}

func (b *bed) corruptFile() {
	b.t.Helper()
	for _, suffix := range []string{"-wal", "-shm"} {
		_ = os.Remove(b.path("locks.db" + suffix))
	}
	if err := os.WriteFile(b.path("locks.db"), []byte(strings.Repeat("no database\n", 200)), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// Where nobody has named a store, that is the first thing to know.
func TestDoctorWithoutStore(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, c := range []struct {
		args  []string
		level string
	}{{nil, "warning"}, {[]string{"-q"}, "warning"}, {[]string{"--local"}, "ok"}} {
		r := b.command(append([]string{"doctor"}, c.args...)...)
		r.cmd.Env = []string{"HOME=" + b.dir, b.mark}
		if status := r.start().wait(); status != 0 {
			t.Errorf("%q: status %d, %s", c.args, status, r.err)
		}
		line := strings.Split(r.out.String(), "\n")[1]
		if f := strings.Fields(line); f[0] != "store" || f[1] != c.level || !strings.Contains(line, "this machine and") {
			t.Errorf("%q: %q", c.args, line)
		}
	}
	r := b.command("doctor", "--store", "")
	r.start().want(64, "--store is empty")
}
