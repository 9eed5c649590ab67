package backoff

import (
	"testing"
	"time"
)

func TestNextDoublesUpToHighAndIsSpread(t *testing.T) {
	for range 100 {
		var b Backoff
		for i, top := range []time.Duration{10, 20, 40, 80, 100, 100, 100} {
			top *= time.Millisecond
			if d := b.Next(10*time.Millisecond, 100*time.Millisecond); d < top/2 || d > top {
				t.Fatalf("pause %d is %s, want %s to %s", i, d, top/2, top)
			}
		}
		b.Reset()
		if d := b.Next(10*time.Millisecond, 100*time.Millisecond); d > 10*time.Millisecond {
			t.Fatal("Reset did not")
		}
	}
}

func TestManyTriesDoNotOverflow(t *testing.T) {
	var b Backoff
	for range 200 {
		if d := b.Next(time.Millisecond, time.Second); d <= 0 || d > time.Second {
			t.Fatal(d)
		}
	}
}

func TestJitterIsNotAlwaysTheSame(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 100 {
		d := Jitter(time.Second)
		if d < time.Second/2 || d > time.Second {
			t.Fatal(d)
		}
		seen[d] = true
	}
	if len(seen) < 50 {
		t.Error("in step")
	}
	if Jitter(1) != 1 || Jitter(0) != 0 {
		t.Error("small ones")
	}
}
