package dibsmysql

import (
	_ "embed"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:embed schema.sql
var schemaSQL string

//go:embed sql/acquire.sql
var acquireSQL string

//go:embed sql/look.sql
var lookSQL string

//go:embed sql/release.sql
var releaseSQL string

//go:embed sql/keep.sql
var keepSQL string

//go:embed sql/renew.sql
var renewSQL string

//go:embed sql/renewone.sql
var renewOneSQL string

//go:embed sql/standing.sql
var standingSQL string

//go:embed sql/list.sql
var listSQL string

//go:embed sql/break.sql
var breakSQL string

//go:embed sql/breaknow.sql
var breakNowSQL string

//go:embed sql/fence.sql
var fenceSQL string

//go:embed sql/touch.sql
var touchSQL string

// statements are the texts of one driver, with the names of its tables.
type statements struct {
	acquire, look, release, keep, renew, renewOne, standing, list, breakLater, breakNow *statement

	fence, touch, freeIn, keepIn *statement // in transactions of others, whose database may be another
}

func newStatements(prefix string) *statements {
	c := func(sql string, names ...string) *statement { return newStatement(prefix, sql, names...) }
	return &statements{
		acquire: c(acquireSQL, "key", "owner", "ttl", "floor", "holder", "note"),
		look:    c(lookSQL, "key"),
		release: c(atOnce(releaseSQL), "key", "owner", "told"), keep: c(atOnce(keepSQL), "key", "owner", "keep"),
		renew: c(renewSQL, "leases", "limit", "ttl"), renewOne: c(renewOneSQL, "key", "owner", "ttl"), standing: c(standingSQL, "leases"),
		list:       c(listSQL, "range"),
		breakLater: c(breakSQL, "key", "owner", "token", "mark"), breakNow: c(breakNowSQL, "key", "owner", "token", "mark"),
		fence: c(fenceSQL, "within", "database", "key", "mark"), touch: c(touchSQL, "database", "key"),
		freeIn: c(elsewhere(releaseSQL), "key", "owner", "told", "database"), keepIn: c(elsewhere(keepSQL), "key", "owner", "keep", "database"),
	}
}

// atOnce is an update of ours that takes effect by itself. Where autocommit is off it finds nothing, as nobody else would see it.
func atOnce(sql string) string { return sql + " AND @@autocommit = 1" }

// elsewhere is an update of ours in a transaction, with a gap for the database.
func elsewhere(sql string) string { return strings.Replace(sql, "UPDATE ", "UPDATE {database}", 1) }

// statement is a text with gaps. What fills them are literals that we make ourselves, numbers and hexadecimal strings: with arguments, the client
// library would prepare, execute and close the statement, three round trips, under a default DSN.
type statement struct {
	parts []string // one more than gaps
	gaps  []int    // which value
}

var (
	comment = lazily(`(?m)(^|\s)--.*$`)
	space   = lazily(`\s+`)
	gap     = lazily(`\{[a-z]+\}`)
)

// lazily compiles a pattern when it is first used: a program that links this package and uses another store would pay for it at each start.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

const (
	nowSQL   = "UTC_TIMESTAMP(6)"
	nowUSSQL = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))" // UNIX_TIMESTAMP would read it in the session's zone
)

func newStatement(prefix, sql string, names ...string) *statement {
	sql = comment().ReplaceAllString(sql, "")
	sql = strings.NewReplacer("$NOW_US", nowUSSQL, "$NOW", nowSQL, "dibs_leases", prefix+"leases", "dibs_meta", prefix+"meta").Replace(sql)
	sql = strings.TrimSpace(space().ReplaceAllString(sql, " "))
	s := &statement{}
	last := 0
	for _, at := range gap().FindAllStringIndex(sql, -1) {
		i := slices.Index(names, sql[at[0]+1:at[1]-1])
		if i < 0 {
			panic("dibsmysql: no value for " + sql[at[0]:at[1]])
		}
		s.parts, s.gaps = append(s.parts, sql[last:at[0]]), append(s.gaps, i)
		last = at[1]
	}
	s.parts = append(s.parts, sql[last:])
	return s
}

// with fills the gaps.
func (s *statement) with(values ...string) string {
	n := 0
	for _, p := range s.parts {
		n += len(p)
	}
	for _, i := range s.gaps {
		n += len(values[i])
	}
	var b strings.Builder
	b.Grow(n)
	for j, i := range s.gaps {
		b.WriteString(s.parts[j])
		b.WriteString(values[i])
	}
	b.WriteString(s.parts[len(s.parts)-1])
	return b.String()
}

// literal is a string of bytes in SQL, the same under every character set and SQL mode.
func literal(s string) string {
	b := make([]byte, 0, 2*len(s)+3)
	b = append(b, "X'"...)
	b = hex.AppendEncode(b, []byte(s))
	return string(append(b, '\''))
}

// text is a literal for a column of text. The empty string is NULL, which some SQL modes make of it anyway.
func text(s string) string {
	if s == "" {
		return "NULL"
	}
	return "_utf8mb4 " + literal(s)
}

func number(n int64) string { return fmt.Sprint(n) }
