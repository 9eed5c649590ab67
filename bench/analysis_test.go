package main

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestJain(t *testing.T) {
	for _, c := range []struct {
		counts []int
		want   float64
	}{
		{[]int{5, 5, 5, 5}, 1},
		{[]int{8, 0, 0, 0}, 0.25},
		{[]int{1, 2, 3}, 36.0 / 42},
		{[]int{0, 0}, 0},
		{nil, 0},
	} {
		if got := jain(c.counts); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("jain(%v) = %v, want %v", c.counts, got, c.want)
		}
	}
}

func TestPercentile(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1))
	}
	for _, c := range []struct {
		values []time.Duration
		p      float64
		want   time.Duration
	}{
		{hundred, 0.50, 50}, {hundred, 0.99, 99}, {hundred, 1, 100}, {hundred, 0, 1},
		{[]time.Duration{7}, 0.5, 7}, {[]time.Duration{7}, 0.99, 7},
		{[]time.Duration{1, 2}, 0.5, 1}, {[]time.Duration{1, 2}, 0.51, 2},
		{nil, 0.5, 0},
	} {
		if got := percentile(c.values, c.p); got != c.want {
			t.Errorf("percentile of %d values at %v = %d, want %d", len(c.values), c.p, got, c.want)
		}
	}
	unsorted := []time.Duration{3, 9, 1}
	if got := median(unsorted); got != 3 || !slices.Equal(unsorted, []time.Duration{3, 9, 1}) {
		t.Errorf("median = %d, and the values are now %v", got, unsorted)
	}
}

// One worker has two turns and another one; nothing is wrong.
func TestAnalyseInOrder(t *testing.T) {
	got := analyse([]section{
		{Worker: 1, Start: 160, End: 190, Wait: 60, Token: 30}, // out of order, as several processes report
		{Worker: 0, Start: 100, End: 120, Wait: 10, Token: 10},
		{Worker: 0, Start: 120, End: 150, Wait: 20, Token: 20},
		{Worker: 1, Start: 195, End: 230, Wait: 4, Token: 40},  // ends after the window
		{Worker: 0, Start: 230, End: 240, Wait: 99, Token: 50}, // begins after it
	}, []time.Duration{90}, 100, 200, 3)
	want := turns{
		Sections: 4 / (100 * time.Nanosecond).Seconds(), InUse: (20 + 30 + 30 + 5) / 100.0, Mean: (20 + 30 + 30 + 35) / 4,
		P50: 20, P99: 90, Max: 90, Fairness: 16.0 / (3 * 8),
	}
	if math.Abs(got.InUse-want.InUse) > 1e-9 || math.Abs(got.Fairness-want.Fairness) > 1e-9 || math.Abs(got.Sections/want.Sections-1) > 1e-9 {
		t.Errorf("got %+v, want %+v", got, want)
	}
	got.InUse, got.Fairness, got.Sections = want.InUse, want.Fairness, want.Sections
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestAnalyseFindsFaults(t *testing.T) {
	for _, c := range []struct {
		name                string
		sections            []section
		overlaps, notRising int
	}{
		{"one ends as the next begins", []section{{Start: 10, End: 20, Token: 1}, {Start: 20, End: 30, Token: 2}}, 0, 0},
		{"two at once", []section{{Start: 10, End: 20, Token: 1}, {Start: 19, End: 30, Token: 2}}, 1, 0},
		{"within a long one, behind a short one", []section{{Start: 10, End: 90, Token: 1}, {Start: 20, End: 30, Token: 2}, {Start: 80, End: 95, Token: 3}}, 2, 0},
		{"after the window, too", []section{{Start: 210, End: 220, Token: 1}, {Start: 215, End: 230, Token: 2}}, 1, 0},
		{"a token twice", []section{{Start: 10, End: 20, Token: 5}, {Start: 20, End: 30, Token: 5}}, 0, 1},
		{"tokens that fall, and stay below", []section{{Start: 10, End: 20, Token: 5}, {Start: 20, End: 30, Token: 3}, {Start: 30, End: 40, Token: 4}}, 0, 2},
		{"no tokens", []section{{Start: 10, End: 20}, {Start: 20, End: 30}}, 0, 0},
	} {
		got := analyse(c.sections, nil, 0, 200, 1)
		if got.Overlaps != c.overlaps || got.NotRising != c.notRising {
			t.Errorf("%s: %d overlaps and %d tokens not rising, want %d and %d", c.name, got.Overlaps, got.NotRising, c.overlaps, c.notRising)
		}
	}
}

func TestHandoffs(t *testing.T) {
	got := handoffs([]section{
		{Worker: 0, Start: 0, End: 100},
		{Worker: 1, Start: 107, End: 200, Wait: 50},
		{Worker: 0, Start: 203, End: 300, Wait: 70},
		{Worker: 0, Start: 310, End: 400, Wait: 5},  // to itself
		{Worker: 1, Start: 450, End: 500, Wait: 20}, // it came when the key was free
	})
	if want := []time.Duration{3, 7}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
