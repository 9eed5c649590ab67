package storeurl

import (
	"regexp"
	"strings"
	"sync"
)

const hidden = "xxxxx"

// secretParam is a parameter that sounds like a secret.
var secretParam = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)[?&][^=&]*(?:pass|pwd|secret|token|auth|key)[^=&]*=[^&]*`)
})

// redact returns raw without what may be a password, and whether there was one. It does not parse the URL, since one that cannot be
// parsed must not show its password either.
func redact(raw string) (shown string, found bool) {
	prefix, rest := "", raw
	if i := strings.Index(raw, "://"); i >= 0 {
		prefix, rest = raw[:i+3], raw[i+3:]
	}
	// The last @ ends the user's part even if the password has slashes or question marks in it. An @ further
	// back (in a parameter) then hides too much, which is the safe side.
	at := strings.LastIndexByte(rest, '@')
	if at >= 0 {
		user, password, ok := strings.Cut(rest[:at], ":")
		switch {
		case ok && password != "":
			prefix, found = prefix+user+":"+hidden, true
		case strings.HasPrefix(prefix, "redis"): // some clients take a lone name for the password
			prefix, found = prefix+hidden, true
		default:
			prefix += rest[:at]
		}
		rest = rest[at:]
	}
	if !strings.ContainsAny(rest, "?&") {
		return prefix + rest, found
	}
	return prefix + secretParam().ReplaceAllStringFunc(rest, func(s string) string {
		found = true
		return s[:strings.IndexByte(s, '=')+1] + hidden
	}), found
}
