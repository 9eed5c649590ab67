//go:build linux

package main_test

import (
	"fmt"
	"strings"
	"testing"
)

// The table of row locks is made where it is missing, and who may not make it is told; no command needs it.
func TestInitAndTheTableOfRowLocks(t *testing.T) {
	onServers(t, func(t *testing.T, b *bed) {
		says := func(parts ...string) {
			t.Helper()
			status, out, stderr := b.run("init")
			if status != 0 || stderr != "" || strings.Count(out, "\n") != 1 || !strings.Contains(out, " is ready") {
				t.Errorf("%d, %q, %s", status, out, stderr)
			}
			if len(parts) == 0 && !strings.HasSuffix(out, "is ready\n") {
				t.Errorf("%q says more than that it is ready", out)
			}
			for _, p := range parts {
				if !strings.Contains(out, p) {
					t.Errorf("%q is not in %q", p, out)
				}
			}
		}
		b.bare()
		a := b.user()
		b.exec(b.admin, fmt.Sprintf("GRANT SELECT ON %s.* TO %s@'%%'", b.database, a.User))
		b.store = b.url(a, b.wire.addr, "")
		none := b.start("init")
		none.want(69, "may not create tables", "cannot be used as they are", "dibs init")
		if text := none.err.String(); strings.Count(text, "mysql:") != 1 {
			t.Errorf("%q does not name the store once", text)
		}
		if text := none.err.String(); strings.Contains(strings.ReplaceAll(text, "dibs init --print", ""), "dibs init") {
			t.Errorf("%q sends to dibs init whom dibs init could not serve", text)
		}
		b.initTables()
		for _, table := range []string{"leases", "meta", "rows"} {
			b.exec(b.admin, fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %s.dibs_%s TO %s@'%%'", b.database, table, a.User))
		}
		says()
		b.exec(b.admin, "DROP TABLE dibs_rows")
		says("dibs_rows", "row locks", "may not create it")
		b.start("run", "k", "--", "true").want(0)

		b.store = b.url(b.Admin, b.wire.addr, "")
		says()
		b.exec(b.admin, "INSERT INTO dibs_rows (id, name) VALUES (1, 'x')")
		b.exec(b.admin, "DELETE FROM dibs_rows")
		b.connectionsEnd()
	})
}
