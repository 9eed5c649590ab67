package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// buffer takes both outputs, from two goroutines.
type buffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

// goTest runs testsum over go test on a module made of files, and returns its exit status and output.
func goTest(t *testing.T, files map[string]string, args ...string) (int, string) {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example.test/m\n\ngo 1.26\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// What the outer go test was told is not for this one.
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "")
	t.Setenv("GOCOVERDIR", "")
	var out buffer
	code := run(t.Context(), append([]string{"-again", "go test -json -count=2 -run", "--", "go", "test", "-json"}, args...), &out, &out)
	return code, out.String()
}

func want(t *testing.T, code, wantCode int, out string, parts ...string) {
	t.Helper()
	if code != wantCode {
		t.Errorf("exit status %d, want %d", code, wantCode)
	}
	last := parts[len(parts)-1]
	if lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n"); lines[len(lines)-1] != last {
		t.Errorf("the last line is %q, want %q", lines[len(lines)-1], last)
	}
	for _, p := range parts {
		if !strings.Contains(out, p) {
			t.Errorf("the output lacks %q", p)
		}
	}
	if t.Failed() {
		t.Logf("output:\n%s", out)
	}
}

const head = "package m\n\nimport \"testing\"\n\n"

func TestPassing(t *testing.T) {
	code, out := goTest(t, map[string]string{
		"a/a_test.go": head + `
func TestOne(t *testing.T) { t.Log("quiet") }
func TestParent(t *testing.T) {
	t.Run("x", func(t *testing.T) { t.Run("y/z", func(t *testing.T) {}) })
	t.Run("w", func(t *testing.T) {})
}`,
		"b/b.go": "package b\n",
	}, "./...")
	want(t, code, 0, out, "ok  \texample.test/m/a", "?   \texample.test/m/b\t[no test files]", "3 passed, 0 failed, 0 skipped")
	if strings.Contains(out, "quiet") {
		t.Errorf("the output of a test that passed is shown:\n%s", out)
	}
}

func TestFailures(t *testing.T) {
	code, out := goTest(t, map[string]string{
		"a_test.go": head + `
func TestGood(t *testing.T) { t.Log("quiet") }
func TestParent(t *testing.T) {
	t.Run("bad", func(t *testing.T) { t.Error("child is bad") })
	t.Run("good", func(t *testing.T) {})
}
func TestItself(t *testing.T) {
	t.Run("good", func(t *testing.T) {})
	t.Error("parent is bad")
}`,
	}, "./...")
	want(t, code, 1, out, "child is bad", "parent is bad", "failed:\n  example.test/m TestParent/bad\n  example.test/m TestItself\n",
		"3 passed, 2 failed, 0 skipped")
	if strings.Contains(out, "quiet") {
		t.Errorf("the output of a test that passed is shown:\n%s", out)
	}
}

func TestSkippedFailsTheRun(t *testing.T) {
	code, out := goTest(t, map[string]string{
		"a_test.go": head + `
func TestGood(t *testing.T) {}
func TestSkips(t *testing.T) { t.Skip("no server") }`,
	}, "./...")
	want(t, code, 1, out, "example.test/m TestSkips: a_test.go:7: no server", "1 passed, 0 failed, 1 skipped")
}

func TestBuildFailure(t *testing.T) {
	code, out := goTest(t, map[string]string{
		"a/a_test.go": head + "func TestGood(t *testing.T) {}",
		"b/b_test.go": head + "func TestBad(t *testing.T) { undefinedName() }",
	}, "./...")
	want(t, code, 1, out, "undefined: undefinedName", "failed:\n  example.test/m/b\n", "1 passed, 1 failed, 0 skipped")
}

func TestPanic(t *testing.T) {
	code, out := goTest(t, map[string]string{
		"a_test.go": head + `
func TestGood(t *testing.T) {}
func TestPanics(t *testing.T) { t.Run("x", func(t *testing.T) { panic("at the disco") }) }
func TestNever(t *testing.T) {}`,
	}, "./...")
	want(t, code, 1, out, "panic: at the disco", "TestPanics/x", "1 passed, 1 failed, 0 skipped")
}

func TestPanicInGoroutine(t *testing.T) {
	code, out := goTest(t, map[string]string{
		"a_test.go": head + `
func TestGood(t *testing.T) {}
func TestPanics(t *testing.T) { go func() { panic("elsewhere") }(); select {} }`,
	}, "./...")
	want(t, code, 1, out, "panic: elsewhere", "TestPanics (did not end)", "1 passed, 1 failed, 0 skipped")
}

func TestTimeout(t *testing.T) {
	code, out := goTest(t, map[string]string{
		"a_test.go": head + `
func TestGood(t *testing.T) {}
func TestHangs(t *testing.T) { t.Run("x", func(t *testing.T) { select {} }) }`,
	}, "-timeout=1s", "./...")
	want(t, code, 1, out, "test timed out after 1s", "TestHangs/x", "1 passed, 1 failed, 0 skipped")
}

func TestExitOutsideOfTests(t *testing.T) {
	code, out := goTest(t, map[string]string{
		"a_test.go": `package m

import ("testing"; "os"; "fmt")

func TestGood(t *testing.T) {}
func TestMain(m *testing.M) { m.Run(); fmt.Println("leaked a server"); os.Exit(3) }`,
	}, "./...")
	want(t, code, 1, out, "leaked a server", "failed:\n  example.test/m\n", "1 passed, 1 failed, 0 skipped")
}

func TestErrorOfTheGoCommand(t *testing.T) {
	code, out := goTest(t, map[string]string{}, "./nowhere")
	want(t, code, 1, out, "nowhere", "0 passed, 1 failed, 0 skipped")
}

func TestNothingToRun(t *testing.T) {
	code, out := goTest(t, map[string]string{"b.go": "package b\n"}, "./...")
	want(t, code, 1, out, "nothing was run", "0 passed, 0 failed, 0 skipped")
}

func TestChecks(t *testing.T) {
	var out buffer
	code := run(t.Context(), []string{"-check", "good=echo quiet", "-check", "bad=echo why; exit 3", "--", "true"}, &out, &out)
	want(t, code, 1, out.String(), "ok  \tcheck good\n", "why\nFAIL\tcheck bad: exit status 3\n", "failed:\n  check bad\n", "1 passed, 1 failed, 0 skipped")
	if strings.Contains(out.String(), "quiet") {
		t.Errorf("the output of a check that passed is shown:\n%s", out.String())
	}

	// A failed check does not explain why the tests failed.
	out = buffer{}
	code = run(t.Context(), []string{"-check", "bad=exit 1", "--", "sh", "-c", "exit 7"}, &out, &out)
	want(t, code, 1, out.String(), "failed:\n  check bad\n  the test command\n", "0 passed, 2 failed, 0 skipped")
}

func TestCutOff(t *testing.T) {
	var out buffer
	events := `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"was here\n"}
`
	code := run(t.Context(), []string{"--", "printf", "%s", events}, &out, &out)
	want(t, code, 1, out.String(), "was here\n", "FAIL\tp\n", "failed:\n  p TestA (did not end)\n", "0 passed, 1 failed, 0 skipped")
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"--"}, {"-check"}, {"-check", "name", "--", "true"}, {"-check", "=x", "--", "true"}, {"-again"}, {"-again", "true"}, {"what"}} {
		var out buffer
		if code := run(t.Context(), args, &out, &out); code != 2 || !strings.Contains(out.String(), "usage:") {
			t.Errorf("%q: exit status %d, output %q", args, code, out.String())
		}
	}
}
