package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// pkg is a package whose tests are under way.
type pkg struct {
	path   string
	tests  map[string]*test // those that have not ended
	bad    map[string]bool  // those that failed, were skipped or never ended
	failed int
	output []output
}

// test is a test that has not ended.
type test struct {
	parent      bool // it has subtests
	childFailed bool
}

// output is a line, or a part of one, that a test printed, or the package if there is no test.
type output struct{ test, text string }

// test takes an event of a test.
func (p *pkg) test(s *summary, ev event) {
	t := p.tests[ev.Test]
	switch ev.Action {
	case "output":
		p.output = append(p.output, output{ev.Test, ev.Output})
	case "run":
		p.tests[ev.Test] = &test{}
		if up := p.parentOf(ev.Test); up != nil {
			up.parent = true
		}
	case "pass", "bench":
		if t == nil || !t.parent {
			s.passed++
		}
		delete(p.tests, ev.Test)
	case "fail":
		p.bad[ev.Test] = true
		if up := p.parentOf(ev.Test); up != nil {
			up.childFailed = true
		}
		if t == nil || !t.childFailed {
			p.failed++
			s.failedTest(failure{p.path + " " + ev.Test, p.path, ev.Test})
		}
		delete(p.tests, ev.Test)
	case "skip":
		p.bad[ev.Test] = true
		s.skipped++
		s.skips = append(s.skips, p.path+" "+ev.Test+p.reason(ev.Test))
		delete(p.tests, ev.Test)
	}
}

// isCertain reports whether a line tells of a fault that no busy machine makes. Tests of safety say so themselves.
func isCertain(line string) bool {
	return strings.Contains(line, "GUARANTEE BROKEN") || strings.HasPrefix(line, "WARNING: DATA RACE") || strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
}

// parentOf finds the nearest test that this one is part of: the name of a subtest may itself have slashes.
func (p *pkg) parentOf(name string) *test {
	for {
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			return nil
		}
		name = name[:i]
		if t := p.tests[name]; t != nil {
			return t
		}
	}
}

// reason is what a skipped test said.
func (p *pkg) reason(name string) string {
	for _, o := range p.output {
		text := strings.TrimSpace(o.text)
		if o.test == name && text != "" && !strings.HasPrefix(text, "===") && !strings.HasPrefix(text, "---") {
			return ": " + text
		}
	}
	return ""
}

// end takes the end of the package.
func (p *pkg) end(s *summary, ev event) {
	if ev.Action != "fail" {
		p.show(s, func(o output) bool { return o.test == "" && isResult(o.text) })
		return
	}
	s.certain = s.certain || slices.ContainsFunc(p.output, func(o output) bool { return isCertain(o.text) })
	// What never ended: only the innermost counts.
	cut := false
	for _, name := range slices.Sorted(maps.Keys(p.tests)) {
		t := p.tests[name]
		cut = true
		p.bad[name] = true
		if !t.parent || !p.unfinishedBelow(name) && !t.childFailed {
			p.failed++
			s.fail(p.path + " " + name + " (did not end)")
		}
	}
	unexplained := p.failed == 0
	if unexplained {
		s.fail(p.path)
	}
	// What killed the process may stand in the output of any test.
	all := cut || unexplained
	p.show(s, func(o output) bool { return all || o.test == "" || p.bad[o.test] })
	if len(p.output) == 0 || !strings.HasPrefix(p.output[len(p.output)-1].text, "FAIL\t") {
		fmt.Fprintf(s.out, "FAIL\t%s\n", p.path)
	}
}

func (p *pkg) unfinishedBelow(name string) bool {
	for other := range p.tests {
		if strings.HasPrefix(other, name+"/") {
			return true
		}
	}
	return false
}

func (p *pkg) show(s *summary, which func(output) bool) {
	for _, o := range p.output {
		if which(o) {
			fmt.Fprint(s.out, o.text)
		}
	}
}

// isResult reports whether a line of a package that passed is the one that says so.
func isResult(line string) bool {
	return strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "?   \t") || strings.HasPrefix(line, "---") ||
		strings.HasPrefix(line, "\t") && strings.Contains(line, "coverage:")
}
