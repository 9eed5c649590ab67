//go:build linux

package main_test

import (
	"strings"
	"testing"
)

// Before the first contact, too, an error says which server and database were asked, or which file, and it says so once.
func TestErrorsNameTheStoreOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	addr := closedAddr(t)
	for _, c := range []struct{ store, once string }{
		{"mysql://u:hunter2@" + addr + "/app", "mysql:" + addr + "/app: "},
		{"u:hunter2@tcp(" + addr + ")/app", "mysql:" + addr + "/app: "},
		{"mysql://u:hunter2@/app?socket=" + b.path("none.sock"), "mysql:unix(" + b.path("none.sock") + ")/app: "},
		{"sqlite:" + b.path("no/x.db"), "sqlite:" + b.path("no/x.db") + ": "},
		{"sqlite:no/x.db", "sqlite:" + b.path("no/x.db") + ": "},
		{"sqlite:/proc/x.db", "sqlite:/proc/x.db: "},
	} {
		b.store = c.store
		for _, args := range [][]string{{"run", "k", "--", "touch", "marker"}, {"ls"}, {"init"}, {"break", "--yes", "k"}, {"sweep"}} {
			r := b.start(args...)
			r.want(69, c.once)
			kind, _, _ := strings.Cut(c.once, ":")
			if text := r.err.String(); strings.Count(text, kind+":") != 1 || strings.Contains(text, "on "+kind) || strings.Contains(text, "(the store is") || strings.Contains(text, "hunter2") {
				t.Errorf("%s of %q: %s", args[0], c.store, text)
			}
		}
	}
	if b.exists("marker") {
		t.Error("a command was run without its lock")
	}
}
