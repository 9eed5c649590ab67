package dibssqlite

import (
	"embed"
	"strconv"
	"strings"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// now is SQLite's clock in whole milliseconds. It is the same wherever it stands in one statement, so no statement
// sees a lease both before and after its end. Rounded, because the fraction is not exact in binary.
const now = "CAST(round(unixepoch('subsec') * 1000) AS INTEGER)"

// queries are the statements with the table prefix put in.
type queries struct {
	schema, version, strangers, probe string

	takeFree, look, line, take, extend, ask, leave, dropWaiters string
	renew, release, list, breakNow, breakLater                  string
	window, sweep, sweepWaiters                                 string
	fence, fenced, expires                                      string
	census                                                      string
}

func newQueries(prefix string) *queries {
	text := func(s string) string {
		return withPrefix(strings.ReplaceAll(s, "$NOW", now), prefix)
	}
	file := func(name string) string {
		b, err := sqlFiles.ReadFile("sql/" + name + ".sql")
		if err != nil {
			panic(err) // the file was left out of the build
		}
		return text(string(b))
	}
	return &queries{
		schema:    text(schemaSQL),
		version:   text("SELECT value FROM dibs_meta WHERE name = 'schema_version'"),
		strangers: text("SELECT count(*) FROM sqlite_schema WHERE tbl_name NOT IN ('dibs_meta', 'dibs_leases', 'dibs_waiters')"),
		probe:     file("probe"),

		takeFree:    file("takefree"),
		look:        file("look"),
		line:        text("SELECT waiter, seen_ms FROM dibs_waiters WHERE lock_key = ?1 ORDER BY place"),
		take:        file("take"),
		extend:      text("UPDATE dibs_leases SET expires_ms = max(expires_ms, ?2) WHERE lock_key = ?1"),
		ask:         file("ask"),
		leave:       text("DELETE FROM dibs_waiters WHERE lock_key = ?1 AND waiter = ?2"),
		dropWaiters: text("DELETE FROM dibs_waiters WHERE lock_key = ?1 AND seen_ms NOT BETWEEN ?2 AND ?3"),

		renew:      file("renew"),
		release:    file("release"),
		list:       file("list"),
		breakNow:   text("UPDATE dibs_leases SET owner = NULL, open = 0, expires_ms = ?2 WHERE lock_key = ?1"),
		breakLater: text("UPDATE dibs_leases SET open = 0 WHERE lock_key = ?1"),

		fence:   file("fence"),
		fenced:  text("SELECT owner, token, expires_ms - $NOW, open FROM dibs_leases WHERE lock_key = ?1"),
		expires: text("SELECT expires_ms FROM dibs_leases WHERE lock_key = ?1"),
		census: text("SELECT (SELECT count(*) FROM dibs_leases WHERE owner IS NOT NULL AND expires_ms > $NOW), " +
			"(SELECT count(*) FROM dibs_waiters WHERE seen_ms > $NOW - " + strconv.Itoa(waiterLife) + ")"),

		window:       file("window"),
		sweep:        text("DELETE FROM dibs_leases WHERE lock_key > ?1 AND lock_key <= ?2 AND expires_ms < ?3"),
		sweepWaiters: text("DELETE FROM dibs_waiters WHERE seen_ms NOT BETWEEN ?1 AND ?2"),
	}
}
