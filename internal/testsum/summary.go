package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is one line of go test -json; see go doc test2json and go help buildjson.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of a build
	FailedBuild string
	Test        string
	Elapsed     float64
	Output      string
}

// summary counts and shows the events of one run.
type summary struct {
	out      io.Writer
	packages map[string]*pkg

	passed, failed, skipped int
	failures                []failure
	skips, unsteady         []string // their names, for the end
	failedChecks            int
	certain                 bool // a failure is the code's, whatever the machine did
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, packages: make(map[string]*pkg)}
}

func (s *summary) fail(name string) { s.failedTest(failure{name: name}) }

func (s *summary) failedTest(f failure) {
	s.failed++
	s.failures = append(s.failures, f)
}

// check runs one check and counts it.
func (s *summary) check(name string, run func() (string, error)) {
	output, err := run()
	if err == nil {
		s.passed++
		fmt.Fprintf(s.out, "ok  \tcheck %s\n", name)
		return
	}
	fmt.Fprintf(s.out, "%sFAIL\tcheck %s: %v\n", wholeLines(output), name, err)
	s.fail("check " + name)
	s.failedChecks++
}

// line takes one line of the test command's output. What is no event (an error of the go command) is shown as it is.
func (s *summary) line(line []byte) {
	var ev event
	if !bytes.HasPrefix(bytes.TrimSpace(line), []byte("{")) || json.Unmarshal(line, &ev) != nil || ev.Action == "" {
		fmt.Fprint(s.out, wholeLines(string(line)))
		return
	}
	switch {
	case ev.Action == "build-output":
		fmt.Fprint(s.out, ev.Output)
	case ev.Action == "build-fail": // the failing packages follow
	case ev.Test != "":
		s.pkg(ev.Package).test(s, ev)
	case ev.Action == "output":
		p := s.pkg(ev.Package)
		p.output = append(p.output, output{text: ev.Output})
	case ev.Action == "pass" || ev.Action == "fail" || ev.Action == "skip":
		s.pkg(ev.Package).end(s, ev)
		delete(s.packages, ev.Package)
	}
}

func (s *summary) pkg(path string) *pkg {
	p := s.packages[path]
	if p == nil {
		p = &pkg{path: path, tests: make(map[string]*test), bad: make(map[string]bool)}
		s.packages[path] = p
	}
	return p
}

// ended takes how the test command ended. A failure that no package has explained counts as one.
func (s *summary) ended(err error) {
	for _, path := range slices.Sorted(maps.Keys(s.packages)) { // the command ended in their midst
		s.packages[path].end(s, event{Action: "fail", Package: path})
	}
	if err != nil && s.failed == s.failedChecks {
		fmt.Fprintf(s.out, "FAIL\tthe test command ended with %v\n", err)
		s.fail("the test command")
	}
}

// close shows the end of the run and returns its exit status.
func (s *summary) close() int {
	list := func(title string, names []string) {
		if len(names) > 0 {
			fmt.Fprintf(s.out, "\n%s:\n  %s\n", title, strings.Join(names, "\n  "))
		}
	}
	var failed []string
	for _, f := range s.failures {
		failed = append(failed, f.name)
	}
	list("failed", failed)
	list("failed beside other tests (above) and passed by themselves", s.unsteady)
	list("skipped (which fails the run: a test that did not run proves nothing)", s.skips)
	ok := s.failed == 0 && s.skipped == 0
	if ok && s.passed == 0 {
		fmt.Fprintln(s.out, "\nnothing was run")
		ok = false
	}
	fmt.Fprintf(s.out, "\n%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
	if ok {
		return 0
	}
	return 1
}

func wholeLines(s string) string {
	if s != "" && !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	return s
}
