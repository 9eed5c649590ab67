package main

import (
	"fmt"
	"strings"
	"testing"
)

const unsteady = head + `
func failsFirst(t *testing.T) {
	if _, err := os.Stat("was-here"); err != nil {
		os.WriteFile("was-here", nil, 0o600)
		t.Error("a busy machine")
	}
}
func TestParent(t *testing.T) {
	t.Run("a (b)", func(t *testing.T) { t.Run("c", failsFirst) })
	t.Run("good", func(t *testing.T) {})
}
`

// withOS imports os too.
func withOS(text string) string {
	return strings.Replace(text, "import \"testing\"", "import (\"os\"; \"testing\")", 1)
}

// What passes by itself counts as passed, and is named; what fails again has failed.
func TestAgain(t *testing.T) {
	code, out := goTest(t, map[string]string{"a/a_test.go": withOS(unsteady) + `func TestBad(t *testing.T) { t.Error("broken") }`}, "./...")
	want(t, code, 1, out, "a busy machine", "again\texample.test/m/a TestParent/a_(b)/c: passed", "again\texample.test/m/a TestBad: failed", "passed by themselves:\n  example.test/m/a TestParent/a_(b)/c\n", "failed:\n  example.test/m/a TestBad\n",
		"2 passed, 1 failed, 0 skipped")
}

// What is certain is not tried again, nor what fails beside it.
func TestNotAgain(t *testing.T) {
	fails := func(test, output string) string {
		return fmt.Sprintf(`{"Action":"run","Package":"p","Test":%[1]q}
{"Action":"output","Package":"p","Test":%[1]q,"Output":%[2]q}
{"Action":"fail","Package":"p","Test":%[1]q}
`, test, output)
	}
	const end = `{"Action":"fail","Package":"p"}`
	one := fails("TestOne", "a busy machine\n")
	for name, c := range map[string]struct {
		events string
		check  string
		again  bool
	}{
		"one":       {one + end, "true", true},
		"five":      {strings.Repeat(one, 5) + end, "true", true},
		"six":       {strings.Repeat(one, 6) + end, "true", false},
		"a panic":   {one + fails("TestTwo", "panic: broken\n") + end, "true", false},
		"safety":    {one + fails("TestTwo", "x_test.go:1: GUARANTEE BROKEN: two holders\n") + end, "true", false},
		"fatal":     {one + fails("TestTwo", "fatal error: all goroutines are asleep\n") + end, "true", false},
		"a race":    {one + fails("TestTwo", "WARNING: DATA RACE\n") + end, "true", false},
		"no end":    {one + `{"Action":"run","Package":"p","Test":"TestTwo"}` + "\n" + end, "true", false},
		"a package": {one + end + "\n" + `{"Action":"fail","Package":"q"}`, "true", false},
		"a check":   {one + end, "false", false},
	} {
		t.Run(name, func(t *testing.T) {
			var out buffer
			code := run(t.Context(), []string{"-check", "c=" + c.check, "-again", "false", "--", "printf", "%s", c.events}, &out, &out)
			if code != 1 || strings.Contains(out.String(), "again\t") != c.again || strings.Contains(out.String(), "by themselves") {
				t.Errorf("exit status %d, output:\n%s", code, out.String())
			}
		})
	}
}
