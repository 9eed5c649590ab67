package storeurl

import (
	"net/url"
	"regexp"
	"strings"
	"sync"
)

// schemeDSN stands for an address in the form of go-sql-driver, which has no scheme: user:password@tcp(host:port)/db.
const schemeDSN = "\x00dsn"

// Compiled when they are needed, which is seldom: each start of dibs would pay for it.
var (
	withBrackets = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?s)^(?:.*@)?[a-z0-9]*\([^)]*\)/`) })
	// Without brackets there must be an @ before the slash, or any path would be an address.
	withDefaults = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?s)^.*@(?:tcp|unix)?/`) })
)

func isDSN(raw string) bool { return hasBrackets(raw) || withDefaults().MatchString(raw) }

func hasBrackets(raw string) bool {
	return strings.Contains(raw, "(") && withBrackets().MatchString(raw)
}

// dsnAddress takes apart what isDSN. Nothing in it is escaped but the database's name and the parameters' values.
func dsnAddress(raw string) (a mysqlAddress, wrong string) {
	pattern := withDefaults()
	if hasBrackets(raw) {
		pattern = withBrackets()
	}
	end := pattern.FindStringIndex(raw)[1]
	where, rest := raw[:end-1], raw[end:]
	if at := strings.LastIndexByte(where, '@'); at >= 0 {
		a.user, a.password, _ = strings.Cut(where[:at], ":")
		where = where[at+1:]
	}
	a.network, a.addr, _ = strings.Cut(strings.TrimSuffix(where, ")"), "(")
	switch a.network {
	case "":
		a.network = "tcp"
	case "tcp", "tcp4", "tcp6", "unix":
	default:
		return a, "names no network that dibs knows: write user:password@tcp(host:port)/database, or unix(/path/to/socket) for tcp(...)"
	}
	name, query, _ := strings.Cut(rest, "?")
	database, err := url.PathUnescape(name)
	if err != nil {
		return a, "has a database with a % in its name that stands for nothing: write %25 for %"
	}
	a.database, a.query = database, query
	return a, ""
}
