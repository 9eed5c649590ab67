package main

import (
	"math"
	"slices"
	"time"
)

// mono is a moment, in nanoseconds of a clock that all processes share.
type mono int64

func (m mono) add(d time.Duration) mono { return m + mono(d) }

func (m mono) sub(n mono) time.Duration { return time.Duration(m - n) }

// section is one critical section: from the return of the lock to the moment before it is given back.
type section struct {
	Worker     int
	Start, End mono
	Wait       time.Duration // for the lock
	Token      int64         // 0 if the contender has none
}

// turns is what became of one key in a window of time.
type turns struct {
	Sections  float64 // a second
	InUse     float64 // share of the window in which somebody was inside
	Mean      time.Duration
	P50, P99  time.Duration // of the waits
	Max       time.Duration
	Fairness  float64 // Jain's index over the workers
	Overlaps  int     // sections that began before another had ended
	NotRising int     // tokens that were not above all before them
}

// analyse looks at all sections of all processes. Waits that had not ended with the window count as long as they were: leaving
// them out would flatter who lets others starve.
func analyse(sections []section, unfinished []time.Duration, begin, end mono, workers int) turns {
	slices.SortFunc(sections, func(a, b section) int { return int(a.Start - b.Start) })
	var t turns
	var used, total time.Duration
	var last mono
	var highest int64
	counts := make([]int, workers)
	waits := slices.Clone(unfinished)
	inWindow := 0
	for _, s := range sections {
		if s.Start < last {
			t.Overlaps++
		}
		last = max(last, s.End)
		if s.Token != 0 && s.Token <= highest {
			t.NotRising++
		}
		highest = max(highest, s.Token)
		if s.Start < begin || s.Start >= end {
			continue
		}
		inWindow++
		counts[s.Worker]++
		waits = append(waits, s.Wait)
		total += s.End.sub(s.Start)
		used += min(s.End, end).sub(s.Start)
	}
	window := end.sub(begin)
	t.Sections = float64(inWindow) / window.Seconds()
	t.InUse = used.Seconds() / window.Seconds()
	if inWindow > 0 {
		t.Mean = total / time.Duration(inWindow)
	}
	slices.Sort(waits)
	t.P50, t.P99, t.Max = percentile(waits, 0.50), percentile(waits, 0.99), percentile(waits, 1)
	t.Fairness = jain(counts)
	return t
}

// jain is Jain's fairness index: 1 if all got the same, 1/n if one got all, 0 if nobody got anything.
func jain(counts []int) float64 {
	var sum, squares float64
	for _, c := range counts {
		sum += float64(c)
		squares += float64(c) * float64(c)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(counts)) * squares)
}

// percentile is the smallest value that at least the share p of all values do not exceed. The values are sorted.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(max(int(math.Ceil(p*float64(len(sorted))))-1, 0), len(sorted)-1)]
}

// median of values that need not be sorted.
func median(values []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	return percentile(sorted, 0.5)
}

// handoffs finds how long the key lay still whenever it went from one worker to another that was waiting for it when the first began to give it back.
func handoffs(sections []section) (gaps []time.Duration) {
	slices.SortFunc(sections, func(a, b section) int { return int(a.Start - b.Start) })
	for i := 1; i < len(sections); i++ {
		a, b := sections[i-1], sections[i]
		if a.Worker != b.Worker && b.Start.add(-b.Wait) < a.End {
			gaps = append(gaps, b.Start.sub(a.End))
		}
	}
	slices.Sort(gaps)
	return gaps
}
