// Package durations reads the times that people write after a flag: "30s", "2h", a bare number of seconds, or a word such as
// "forever".
package durations

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Never is what a word such as "forever" stands for.
const Never = time.Duration(-1)

// Value is a flag (a pflag.Value) that holds a duration.
type Value struct {
	D time.Duration
	// Word is what stands for Never; empty if nothing does.
	Word string
	// NotZero says why 0 is refused; empty if 0 is fine.
	NotZero string
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
	d, err := Parse(s)
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
func Parse(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if digits := strings.TrimPrefix(s, "-"); digits != "" && strings.Trim(digits, ".0123456789") == "" {
		var secs float64
		secs, err = strconv.ParseFloat(s, 64)
		if err == nil && secs >= math.MaxInt64/float64(time.Second) {
			return 0, fmt.Errorf("%q is too long a time", s)
		}
		d = time.Duration(secs * float64(time.Second))
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a time: write 30s, 5m, 2h, a number of seconds", s)
	case d < 0:
		return 0, fmt.Errorf("%q is negative: write 0, 30s, 5m, 2h, a number of seconds", s)
	}
	return d, nil
}
