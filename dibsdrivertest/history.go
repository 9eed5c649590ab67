package dibsdrivertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// history is what several processes did to a few keys.
type history struct {
	mu       sync.Mutex
	sections map[int64]*section
	writes   []write
	frozen   map[int][]span // by process
	died     map[int]mono
	blocked  []span // when the store hung for everybody
	faults   map[int][]span
	passed   []passed
}

// span is a time from and to.
type span struct{ from, to mono }

func (s span) overlaps(from, to mono) bool { return s.from <= to && from <= s.to }

func newHistory() *history {
	return &history{
		sections: make(map[int64]*section), frozen: make(map[int][]span), died: make(map[int]mono), faults: make(map[int][]span),
	}
}

// note takes what a worker tells of a section; the last that it said counts.
func (h *history) note(s section) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sections[s.ID] = &s
}

func (h *history) noteWrite(w write) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes = append(h.writes, w)
}

func (h *history) noteSpan(m map[int][]span, process int, s span) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m[process] = append(m[process], s)
}

// holder returns a process that holds a key at present.
func (h *history) holder(process func(i int) bool) (s section, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(h.sections))) {
		if s := h.sections[id]; s.Outcome == "" && s.Token != 0 && h.died[s.Process] == 0 && process(s.Process) {
			return *s, true
		}
	}
	return section{}, false
}

// held are the sections of each key in the order of their acquisitions.
func (h *history) held() map[string][]*section {
	byKey := make(map[string][]*section)
	for _, s := range h.sections {
		if s.Token != 0 {
			byKey[s.Key] = append(byKey[s.Key], s)
		}
	}
	for _, list := range byKey {
		slices.SortFunc(list, func(a, b *section) int { return int(a.Got - b.Got) })
	}
	return byKey
}

// frozenDuring tells whether a process was frozen, or cut off from its store, in a time.
func (h *history) frozenDuring(process int, from, to mono) bool {
	over := func(s span) bool { return s.overlaps(from, to) }
	return slices.ContainsFunc(h.frozen[process], over) || slices.ContainsFunc(h.faults[process], over)
}

// blockedFor is how long the store hung within a time.
func (h *history) blockedFor(from, to mono) (d time.Duration) {
	for _, b := range h.blocked {
		if b.overlaps(from, to) {
			d += min(b.to, to).sub(max(b.from, from))
		}
	}
	return d
}

// tally is what a history has seen; one that has seen nothing proves nothing.
type tally struct {
	sections, writes, refused int
	outcomes                  map[string]int
	takeovers, freezes        int
	cutOff                    int // sections whose end their process could not have confirmed, as it was cut off from the store
}

func (h *history) tally() tally {
	n := tally{outcomes: make(map[string]int), writes: len(h.writes)}
	for _, s := range h.sections {
		if s.Token != 0 {
			n.sections++
		}
		outcome := s.Outcome
		if outcome == "" {
			outcome = "died in it"
		}
		n.outcomes[outcome]++
		if (s.Outcome == lost || s.Outcome == unsure) && during(h.faults[s.Process], s) && !during(h.frozen[s.Process], s) && !during(h.blocked, s) {
			n.cutOff++
		}
	}
	for _, w := range h.writes {
		if !w.Accepted {
			n.refused++
		}
	}
	byToken := make(map[string]*section)
	for _, s := range h.sections {
		byToken[fmt.Sprint(s.Key, " ", s.Token)] = s
	}
	for _, p := range h.passed {
		switch old := byToken[fmt.Sprint(p.key, " ", p.token)]; {
		case p.frozen && old.Outcome == lost:
			n.freezes++
			n.takeovers++
		case h.died[old.Process] != 0 && old.Outcome == "": // perhaps after it was frozen
			n.takeovers++
		}
	}
	return n
}

// during tells whether one of the spans was in a section, or in the time in which its lease ran out.
func during(spans []span, s *section) bool {
	return slices.ContainsFunc(spans, func(sp span) bool { return sp.overlaps(s.Got, max(s.Freed, s.Trusted+mono(s.TTL))) })
}

func (n tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d sections, %d takeovers from dead or frozen holders, %d of them from frozen ones, %d sections ended by who was cut off, "+
		"%d writes, %d refused by the fence;", n.sections, n.takeovers, n.freezes, n.cutOff, n.writes, n.refused)
	for _, outcome := range slices.Sorted(maps.Keys(n.outcomes)) {
		fmt.Fprintf(&b, " %s: %d;", outcome, n.outcomes[outcome])
	}
	return b.String()
}

// unsafe begins what is said of a guarantee that does not hold: something that no busy machine makes, and that is not tried again.
const unsafe = "GUARANTEE BROKEN:"

// report fails the test for each thing that a leased lock must not do.
func (h *history) report(t *testing.T) {
	t.Helper()
	violations := h.check()
	for i, v := range violations {
		if i == 20 {
			t.Errorf("and %d more", len(violations)-i)
			break
		}
		t.Error(unsafe, v)
	}
}
