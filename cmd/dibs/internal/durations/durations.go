// Package durations reads the times that people write after a flag: "30s", "2h", a bare number of seconds, or a word such as
// "forever".
package durations

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Never is what a word such as "forever" stands for.
const Never = time.Duration(-1)

// longest is what a time.Duration can hold, in whole hours: 292 years.
const longest = math.MaxInt64 / time.Hour * time.Hour

// Value is a flag (a pflag.Value) that holds a duration.
type Value struct {
	D time.Duration
	// Word is what stands for Never; empty if nothing does.
	Word string
	// NotZero says why 0 is refused; empty if 0 is fine.
	NotZero string
	// Max is told where a time is too long to be one at all; it is checked by whoever knows why. 0 if there is none.
	Max time.Duration
}

// Type is what the help calls the value.
func (v *Value) Type() string { return "TIME" }

// String is the value as one would write it.
func (v *Value) String() string {
	switch v.D {
	case Never:
		return v.Word
	case 0:
		return "0"
	}
	return v.D.String()
}

// Set reads the value.
func (v *Value) Set(s string) error {
	if v.Word != "" && s == v.Word {
		v.D = Never
		return nil
	}
	d, err := v.parse(s)
	switch {
	case err != nil && v.Word != "":
		return fmt.Errorf("%w, or %q", err, v.Word)
	case err != nil:
		return err
	case d == 0 && v.NotZero != "":
		return errors.New(v.NotZero)
	}
	v.D = d
	return nil
}

// Parse reads a time.
func Parse(s string) (time.Duration, error) { return new(Value).parse(s) }

func (v *Value) parse(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if isNumber(s) {
		var secs float64
		secs, err = strconv.ParseFloat(s, 64)
		if err == nil && math.Abs(secs) >= math.MaxInt64/float64(time.Second) {
			err = strconv.ErrRange
		}
		if err == nil {
			d = time.Duration(secs * float64(time.Second))
		}
	}
	zero := "0, "
	if v.NotZero != "" {
		zero = ""
	}
	switch {
	case err != nil && isTime(s) && s[0] != '-':
		return 0, fmt.Errorf("%q is too long a time: it can be %s at most", s, cmp.Or(v.Max, longest))
	case err != nil && !isTime(s):
		return 0, fmt.Errorf("%q is not a time: write 30s, 5m, 2h, a number of seconds", s)
	case err != nil, d < 0:
		return 0, fmt.Errorf("%q is negative: write %s30s, 5m, 2h, a number of seconds", s, zero)
	}
	return d, nil
}

// isTime tells whether s is written as a time, be it too long for one: with fewer digits it would do.
func isTime(s string) bool {
	var b strings.Builder
	for i, r := range s {
		digit := r >= '0' && r <= '9'
		if !digit || i == 0 || s[i-1] < '0' || s[i-1] > '9' {
			b.WriteRune(r)
		}
	}
	if isNumber(s) {
		b.WriteByte('s')
	}
	_, err := time.ParseDuration(b.String())
	return err == nil
}

// isNumber tells whether s may be a bare number of seconds.
func isNumber(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	return digits != "" && strings.Trim(digits, ".0123456789") == ""
}
