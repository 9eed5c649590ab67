//go:build linux

package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Which store is used, in the order of the contract. Not parallel: all of it shares the machine's file.
func TestStoreIsLookedUpInOrder(t *testing.T) {
	b := newBed(t)
	file := func(name, text string) string {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	url := func(name string) string { return "sqlite:" + b.path(name) }
	flagFile := file(b.path("store-file"), "# where the locks are\n\n  "+url("flagfile.db")+"  \n")
	home := "HOME=" + b.path("home")
	const notice = "on this machine and for this user only"

	for _, c := range []struct {
		name   string
		args   []string
		env    []string
		system string // the content of the machine's file; empty: there is none
		used   string // the database that appears
		lines  []string
	}{
		{"the flag", []string{"--store", url("flag.db"), "--store-file", flagFile}, []string{"DIBS_STORE=" + url("env.db"), home}, url("sys.db"), "flag.db", []string{flagFile + " is not read: --store comes first"}},
		{"the environment", []string{"--store-file", flagFile}, []string{"DIBS_STORE=" + url("env.db"), home}, url("sys.db"), "env.db", []string{"is not read: DIBS_STORE comes first"}},
		{"the environment, of a file with other line ends", nil, []string{"DIBS_STORE= " + url("env.db") + " \r\n", home}, url("sys.db"), "env.db", nil},
		{"the flag, with white space", []string{"--store", "\t" + url("flag.db") + "\r"}, []string{home}, url("sys.db"), "flag.db", nil},
		{"the environment, quietly", []string{"--quiet", "--store-file", flagFile}, []string{"DIBS_STORE=" + url("env.db"), home}, url("sys.db"), "env.db", nil},
		{"the flag's file", []string{"--store-file", flagFile}, []string{"DIBS_STORE=", home}, url("sys.db"), "flagfile.db", nil},
		{"the machine's file", nil, []string{home}, url("sys.db") + "\r\n", "sys.db", nil},
		{"XDG_STATE_HOME", nil, []string{home, "XDG_STATE_HOME=" + b.path("state")}, "", "state/dibs/dibs.db", []string{notice}},
		{"a relative XDG_STATE_HOME", nil, []string{home, "XDG_STATE_HOME=state"}, "", "home/.local/state/dibs/dibs.db", []string{notice}},
		{"HOME", nil, []string{home}, "", "home/.local/state/dibs/dibs.db", []string{notice}},
		{"HOME, local", []string{"--local"}, []string{home}, "", "home/.local/state/dibs/dibs.db", nil},
		{"HOME, quietly", []string{"--quiet"}, []string{home}, "", "home/.local/state/dibs/dibs.db", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := *b
			b.t = t
			_ = os.Remove(systemFile)
			if c.system != "" {
				file(systemFile, c.system)
			}
			for _, db := range []string{"flag.db", "env.db", "flagfile.db", "sys.db", "state", "home"} {
				_ = os.RemoveAll(b.path(db))
			}
			r := b.command(append(append([]string{"run"}, c.args...), "k", "--", "true")...)
			r.cmd.Env = append(c.env, b.mark) // env -i, as under cron, and without even a PATH
			r.start().want(0, c.lines...)
			var made []string
			for _, pattern := range []string{"*.db", "*/*/*.db", "*/*/*/*/*.db"} {
				m, _ := filepath.Glob(b.path(pattern))
				made = append(made, m...)
			}
			if len(made) != 1 || made[0] != b.path(c.used) {
				t.Errorf("%v is used, want %s", made, c.used)
			}
			if strings.Contains(c.used, "dibs/dibs.db") {
				if st, err := os.Stat(filepath.Dir(b.path(c.used))); err != nil || st.Mode().Perm() != 0o700 {
					t.Errorf("folder: %v, %v", st.Mode(), err)
				}
			}
		})
	}
	_ = os.Remove(systemFile)

	t.Run("nothing at all", func(t *testing.T) {
		b := *b
		b.t = t
		r := b.command("run", "k", "--", "touch", "marker")
		r.cmd.Env = []string{b.mark}
		r.start().want(64, "HOME", "--store", systemFile)
	})
	t.Run("a folder that cannot be made", func(t *testing.T) {
		b := *b
		b.t = t
		file(b.path("nofolder"), "")
		r := b.command("run", "--local", "k", "--", "touch", "marker")
		r.cmd.Env = []string{b.mark, "XDG_STATE_HOME=" + b.path("nofolder")}
		r.start().want(69, "cannot be made", "--store")
	})
	t.Run("a machine's file that says nothing", func(t *testing.T) {
		b := *b
		b.t = t
		file(systemFile, "# later\n")
		defer os.Remove(systemFile)
		r := b.command("run", "k", "--", "touch", "marker")
		r.cmd.Env = []string{b.mark, home}
		r.start().want(64, systemFile, "holds 0")
	})
	t.Run("a machine's file that cannot be read", func(t *testing.T) {
		b := *b
		b.t = t
		if err := os.Mkdir(systemFile, 0o700); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(systemFile)
		r := b.command("run", "k", "--", "touch", "marker")
		r.cmd.Env = []string{b.mark, home}
		r.start().want(64, systemFile, "cannot be read")
	})
	if b.exists("marker") {
		t.Error("a command was run")
	}
}

func TestStoreFilesAndURLsThatAreWrong(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	file := func(name, text string) string {
		if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return b.path(name)
	}
	for _, c := range []struct {
		flag, value string
		parts       []string
	}{
		{"--store-file", b.path("missing"), []string{"missing", "no such file"}},
		{"--store-file", b.dir, []string{"cannot be read"}},
		{"--store-file", file("empty", ""), []string{"empty", "holds 0"}},
		{"--store-file", file("two", "sqlite:/a\nsqlite:/b\n"), []string{"two", "holds 2"}},
		{"--store-file", file("relative", "sqlite:x.db\n"), []string{"must begin with /"}},
		{"--store-file", file("pw", "postgres://u:hunter2@h/db\n"), []string{"no driver for postgres yet", "postgres://u:xxxxx@h/db"}},
		{"--store-file", file("behind", "sqlite:/x.db # hunter2\n"), []string{"behind", "comment", "a line of its own"}},
		{"--store-file", file("tab", "u:hunter2@tcp(h)/db\t# the shop's\n"), []string{"tab", "comment"}},
		{"--store", " \r\n", []string{"--store", "white space"}},
		{"--store", "sqlite:" + b.path("x\r.db"), []string{"--store", "control character"}},
		{"--store", "mysql://u:hunter2@h/db\n\n#", []string{"--store", "control character"}},
		{"--store", "sqlite:" + b.path("x.db?password=hunter2"), []string{"x.db (from --store)", "options", "write sqlite:"}},
		{"--store", "sqlite:" + b.path("x.db?_busy_timeout=5000&_pragma=hunter2/x"), []string{"options"}},
		{"--store", "sqlite::memory:", []string{"gone with this command", "write sqlite:/path/to/file"}},
		{"--store", "sqlite:file::memory:?cache=shared", []string{"write sqlite:/path/to/file"}},
		{"--store", "sqlite:", []string{"names no file"}},
		{"--store", "sqlite:~/x.db", []string{"~"}},
		{"--store", "sqlite://host/x.db", []string{"host"}},
		{"--store", "hunter2", []string{"does not name a store", "sqlite:"}},
		{"--store", "ftp://u:hunter2@h/x", []string{"does not name a store"}},
		{"--store", "postgres://u:hunter2@h/db?sslpassword=hunter2", []string{"no driver for postgres yet"}},
		{"--store", "rediss://hunter2@h", []string{"no driver for redis yet"}},
		{"--store", "redis+sentinel://:hunter2@h/m", []string{"no driver for redis yet"}},
		{"--store", "etcd://h1,h2/p", []string{"no driver for etcd yet"}},
		{"--store", "zk://h1,h2/p", []string{"no driver for zookeeper yet"}},
	} {
		for _, command := range [][]string{{"run", c.flag, c.value, "k", "--", "touch", "marker"}, {"ls", c.flag, c.value}, {"break", "--yes", c.flag, c.value, "k"}} {
			r := b.command(command...)
			r.cmd.Env = []string{b.mark, "HOME=" + b.dir}
			r.start().want(64, c.parts...)
			if strings.Contains(r.err.String()+r.out.String(), "hunter2") {
				t.Errorf("%q shows a password: %s", command, r.err)
			}
			if strings.Contains(r.err.String(), "dibsmem") {
				t.Errorf("%q is told of a Go package: %s", command, r.err)
			}
		}
	}
	if made, _ := filepath.Glob(b.path("x*")); b.exists("marker") || len(made) > 0 {
		t.Errorf("a command was run, or a file made: %q", made)
	}
}

func TestAnEmptyStoreFlagIsNoLocalLock(t *testing.T) {
	b := newBed(t)
	for _, flag := range []string{"--store", "--store-file"} {
		status, _, stderr := b.run("run", flag, "", "k", "--", "touch", "marker")
		if status != 64 || !strings.Contains(stderr, flag+" is empty") || b.exists("marker") {
			t.Errorf("%s: status %d, %s", flag, status, stderr)
		}
	}
}
