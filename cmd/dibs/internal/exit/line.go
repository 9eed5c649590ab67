package exit

import (
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Say writes msg as the one line that dibs owes its user.
func Say(w io.Writer, msg string) {
	// A closed stderr is no reason to fail: whoever closed it does not want to know.
	_, _ = io.WriteString(w, Line(msg)+"\n")
}

// Line makes one line of msg that begins with "dibs: ". The library's errors begin with that too, also where they are wrapped.
func Line(msg string) string {
	msg = strings.TrimPrefix(strings.TrimSpace(msg), "dibs: ")
	msg = strings.ReplaceAll(msg, "\n", "; ")
	return "dibs: " + Printable(strings.ReplaceAll(msg, ": dibs: ", ": "))
}

// Printable replaces what is not printable by its escape: keys, notes and names come from other people, and a
// terminal obeys what they write.
func Printable(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(0x100+uint64(s[i]), 16)[1:])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
		i += size
	}
	return b.String()
}
