package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// mostAgain is how many failures may be a busy machine's. More have a cause that repeating them would only hide.
const mostAgain = 5

// failure is something that counts as failed.
type failure struct {
	name string // for the reader
	pkg  string
	test string // "" if it is no test
}

// again runs each test that failed once more, by itself, and counts those that pass as passed, under a title of their own.
func (s *summary) again(ctx context.Context, stderr io.Writer, command string) {
	notATest := func(f failure) bool { return f.test == "" }
	if command == "" || len(s.failures) > mostAgain || s.certain || slices.ContainsFunc(s.failures, notATest) {
		return
	}
	var left []failure
	for _, f := range s.failures {
		if ctx.Err() == nil && s.passesAlone(ctx, stderr, command, f) {
			s.unsteady = append(s.unsteady, f.name)
			s.passed++
			s.failed--
		} else {
			left = append(left, f)
		}
	}
	s.failures = left
}

func (s *summary) passesAlone(ctx context.Context, stderr io.Writer, command string, f failure) bool {
	var out bytes.Buffer
	alone := newSummary(&out)
	alone.ended(tests(ctx, alone, stderr, []string{"sh", "-c", command + ` "$@"`, "again", onlyTest(f.test), f.pkg}))
	if alone.close() == 0 {
		fmt.Fprintf(s.out, "again\t%s: passed\n", f.name)
		return true
	}
	fmt.Fprintf(s.out, "again\t%s: failed\n%s", f.name, wholeLines(out.String()))
	return false
}

// onlyTest is the pattern for go test -run that one test matches, whole: each part of its name is matched by itself.
func onlyTest(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}
