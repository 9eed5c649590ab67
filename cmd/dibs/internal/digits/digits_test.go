package digits

import (
	"math"
	"strconv"
	"testing"
)

func TestDigits(t *testing.T) {
	for _, n := range []uint64{0, 1, 9, 10, 12345, math.MaxUint32, math.MaxUint64} {
		if s := Format(n); s != strconv.FormatUint(n, 10) {
			t.Errorf("%d is written %q", n, s)
		}
		for _, base := range []int{10, 16} {
			if got, ok := Parse(strconv.FormatUint(n, base), uint64(base)); !ok || got != n {
				t.Errorf("%d in base %d: %d, %v", n, base, got, ok)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("18446744073709551616")
	f.Fuzz(func(t *testing.T, s string) {
		for _, base := range []int{10, 16} {
			got, ok := Parse([]byte(s), uint64(base))
			want, err := strconv.ParseUint(s, base, 64)
			for _, c := range s {
				if c >= 'A' && c <= 'F' {
					return // which the kernel does not write
				}
			}
			if ok != (err == nil) || ok && got != want {
				t.Errorf("%q in base %d: %d, %v; strconv: %d, %v", s, base, got, ok, want, err)
			}
		}
	})
}
