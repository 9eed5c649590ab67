package load

import (
	"fmt"
	"testing"
	"time"
)

func TestRequestsAreCountedBySecond(t *testing.T) {
	var m Meter
	now := time.Now()
	ask := func(key string, n int, at time.Time) (told int) {
		for range n {
			if m.Request(key, at) {
				told++
			}
		}
		return told
	}
	if n := ask("k", Requests, now) + ask("k", Requests, now.Add(time.Second)); n != 0 {
		t.Errorf("told of %d requests a second", Requests)
	}
	if n := ask("k", 1, now.Add(1900*time.Millisecond)); n != 1 {
		t.Errorf("told %d times of %d requests in a second", n, Requests+1)
	}
	for s := 2; s < 63; s++ {
		if n := ask("k", 2*Requests, now.Add(time.Duration(s)*time.Second)); (n == 1) != (s == 62) || n > 1 {
			t.Errorf("in second %d told %d times: once a minute is enough", s, n)
		}
	}
	if n := ask("other", 2*Requests, now.Add(63*time.Second)); n != 1 {
		t.Errorf("told %d times of another key", n)
	}
}

func TestManyKeysCostLittle(t *testing.T) {
	var m Meter
	now := time.Now()
	for i := range 5 * mostKeys {
		m.Request(fmt.Sprint(i), now)
		m.Line(fmt.Sprint(i), Waiters+1, now)
	}
	if len(m.counts) > mostKeys || len(m.told) > mostTexts {
		t.Errorf("%d counts, %d texts are kept", len(m.counts), len(m.told))
	}
	if !m.Line("late", Waiters+1, now.Add(pause)) {
		t.Error("what was said a minute ago still takes the place of what is new")
	}
}

func TestLines(t *testing.T) {
	var m Meter
	now := time.Now()
	if m.Line("k", Waiters, now) {
		t.Errorf("told of %d waiters", Waiters)
	}
	if !m.Line("k", Waiters+1, now) || m.Line("k", 10*Waiters, now.Add(pause-1)) || !m.Line("k", 10*Waiters, now.Add(pause)) {
		t.Error("not told once a minute")
	}
}
