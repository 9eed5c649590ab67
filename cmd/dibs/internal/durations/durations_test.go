package durations

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"0": 0, "1": time.Second, "30": 30 * time.Second, "1.5": 1500 * time.Millisecond, ".25": 250 * time.Millisecond,
		"30s": 30 * time.Second, "2h": 2 * time.Hour, "1h30m": 90 * time.Minute, "100ms": 100 * time.Millisecond, "0s": 0,
	} {
		if got, err := Parse(s); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", " ", "s", "-1", "-1s", "1e3", "0x10", "inf", "NaN", "1.2.3", ".", "30 s", "1d", "forever", "99999999999999999999", "10000000000"} {
		if got, err := Parse(s); err == nil {
			t.Errorf("%q is taken for %v", s, got)
		}
	}
}

func TestWhatIsWrong(t *testing.T) {
	for s, part := range map[string]string{
		"9999999h":                  `"9999999h" is too long a time: it can be 2562047h0m0s at most, or "none"`,
		"99999999999":               "is too long a time",
		"99999999999999999999":      "is too long a time",
		"1h99999999999999999999m1s": "is too long a time",
		"-9999999h":                 "is negative: write 30s",
		"-99999999999999":           "is negative: write 30s",
		"-5s":                       `"-5s" is negative: write 30s, 5m, 2h, a number of seconds, or "none"`,
		"9999999x":                  "is not a time",
		"1h99999999999999999999":    "is not a time",
	} {
		v := Value{Word: "none", NotZero: "because"}
		if err := v.Set(s); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, want %q", s, err, part)
		}
	}
	if err := (&Value{Max: 24 * time.Hour}).Set("9999999h"); err == nil || !strings.Contains(err.Error(), "24h0m0s at most") {
		t.Error(err)
	}
	if err := (&Value{}).Set("-5"); err == nil || !strings.Contains(err.Error(), "write 0, 30s") {
		t.Error(err)
	}
}

func TestValue(t *testing.T) {
	v := Value{D: time.Second, Word: "none", NotZero: "because"}
	if err := v.Set("0"); err == nil || err.Error() != "because" {
		t.Errorf("0: %v", err)
	}
	if err := v.Set("nonsense"); err == nil || v.D != time.Second {
		t.Errorf("%v, %v", v.D, err)
	}
	if err := v.Set("none"); err != nil || v.D != Never || v.String() != "none" {
		t.Errorf("%v, %v", v.D, err)
	}
	if err := v.Set("5"); err != nil || v.String() != "5s" {
		t.Errorf("%v, %v", v.D, err)
	}
	if (&Value{}).Set("none") == nil {
		t.Error("a word is taken that is none")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("30")
	f.Add("1h")
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := Parse(s); err == nil && d < 0 {
			t.Errorf("%q: %v", s, d)
		}
	})
}
