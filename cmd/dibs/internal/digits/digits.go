// Package digits reads and writes numbers for the guard, whose start must not wait for strconv, and so for all that Go initializes
// before that (see the init of package guard).
package digits

// Parse reads a number that is nothing but digits, in base 10 or 16.
func Parse[T string | []byte](s T, base uint64) (n uint64, ok bool) {
	for i := range len(s) {
		var d uint64
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			d = uint64(c - '0')
		case c >= 'a' && c <= 'f':
			d = uint64(c-'a') + 10
		default:
			return 0, false
		}
		if d >= base || n > (1<<64-1-d)/base {
			return 0, false
		}
		n = n*base + d
	}
	return n, len(s) > 0
}

// Format is n in base 10.
func Format(n uint64) string {
	var b [20]byte
	i := len(b)
	for {
		i--
		b[i] = byte('0' + n%10)
		if n /= 10; n == 0 {
			return string(b[i:])
		}
	}
}
