package dibsdrivertest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// tellSlack is how late a loaded machine may run the goroutine that notes the end of a context.
const tellSlack = 400 * time.Millisecond

// check returns what a leased lock must not do, in words.
func (h *history) check() (violations []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	bad := func(format string, args ...any) { violations = append(violations, fmt.Sprintf(format, args...)) }
	held := h.held()
	for _, key := range slices.Sorted(maps.Keys(held)) {
		list := held[key]
		h.checkOverlaps(list, bad)
		h.checkTokens(list, bad)
		h.checkTold(list, bad)
		h.checkStuck(list, bad)
		h.checkRefused(list, bad)
	}
	for _, s := range h.sections {
		if len(s.Outcome) > len(unsure)+len(failed) {
			bad("unexpected error: %s: %s", s, s.Outcome)
		}
	}
	h.checkModel(held, bad)
	return violations
}

func (s *section) String() string {
	return fmt.Sprintf("process %d on %s with token %d (had %s, trusted until %s, told %s, %s)", s.Process, s.Key, s.Token, s.Got, s.Trusted, s.Told, s.Outcome)
}

// checkOverlaps: S1 and S3. Nobody may trust a lock after another has it.
func (h *history) checkOverlaps(list []*section, bad func(string, ...any)) {
	var last *section // the one that was trusted longest so far
	for _, s := range list {
		if last != nil && last.Trusted > s.Got {
			bad("overlap: %s and %s", last, s)
		}
		if last == nil || s.Trusted > last.Trusted {
			last = s
		}
	}
}

// checkTokens: S4, by the order in which acquisitions really were one after another.
func (h *history) checkTokens(list []*section, bad func(string, ...any)) {
	byCall := slices.Clone(list)
	slices.SortFunc(byCall, func(a, b *section) int { return int(a.Called - b.Called) })
	var highest *section
	i := 0
	for _, s := range byCall {
		for ; i < len(list) && list[i].Got < s.Called; i++ {
			if highest == nil || list[i].Token > highest.Token {
				highest = list[i]
			}
		}
		if highest != nil && s.Token <= highest.Token {
			bad("tokens: %s after %s", s, highest)
		}
		if s.Token > dibsdriver.MaxToken {
			bad("tokens: %s", s)
		}
	}
	seen := make(map[int64]*section)
	for _, s := range list {
		if other := seen[s.Token]; other != nil {
			bad("tokens: %s and %s have one", other, s)
		}
		seen[s.Token] = s
	}
}

// checkTold: S3. The work's context ends before another has the key; a process that was frozen is told when it goes on.
func (h *history) checkTold(list []*section, bad func(string, ...any)) {
	for i, s := range list[:max(0, len(list)-1)] {
		next := list[i+1]
		if s.Outcome != lost || h.frozenDuring(s.Process, s.Trusted, max(s.Told, next.Got)) {
			continue
		}
		if s.Told > next.Got+mono(tellSlack) {
			bad("told late: %s, but %s", s, next)
		}
	}
}

// checkStuck: L1 and L3. Whoever waits has the key soon after it could be had: a TTL (or min hold) after its holder was last heard of, and the
// few seconds by which a dead process in the queue may delay the others.
func (h *history) checkStuck(list []*section, bad func(string, ...any)) {
	for i, s := range list {
		from := s.Called
		if i > 0 {
			from = max(from, list[i-1].free())
		}
		const bound = dibsdriver.QueueGrace + 1500*time.Millisecond
		late := s.Got.sub(from) - h.blockedFor(from, s.Got)
		if late > bound && !h.frozenDuring(s.Process, from, s.Got) {
			bad("stuck: %s waited %s longer than it had to", s, late)
		}
	}
}

// free is when the key could be had at the latest.
func (s *section) free() mono {
	if s.Outcome == released {
		return max(s.Freed, s.Got+mono(s.MinHold))
	}
	return max(s.Trusted, s.Got) + mono(max(s.TTL, s.MinHold))
}

// checkRefused: L1 as well. Nobody may be told that a key is busy for long after it could be had. (Somebody may have taken it and died before it could
// say so, or be taking it back: that is what the longer time is for.)
func (h *history) checkRefused(list []*section, bad func(string, ...any)) {
	const bound = dibsdriver.QueueGrace + 5*time.Second
	for _, s := range h.sections {
		if s.Outcome != failed+"busy" || len(list) == 0 || s.Key != list[0].Key {
			continue
		}
		i, _ := slices.BinarySearchFunc(list, s.Got, func(held *section, at mono) int { return int(held.Got - at) })
		if i == 0 || i < len(list) && list[i].Called < s.Got {
			continue // nobody had it before, or somebody is just getting it
		}
		free := list[i-1].free()
		if late := s.Called.sub(free) - h.blockedFor(free, s.Called); late > bound {
			bad("stuck: %s was refused %s after the key could be had", s, late)
		}
	}
}
