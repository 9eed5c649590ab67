package backoff

import "testing"

// TestAfterThirtyDoublingsThePauseIsHigh, however far from high low was.
func TestAfterThirtyDoublingsThePauseIsHigh(t *testing.T) {
	var b Backoff
	for range 30 {
		if d := b.Next(1, 1<<40); d > 1<<29 {
			t.Fatalf("a pause of %d while it still doubles", d)
		}
	}
	if d := b.Next(1, 1<<40); d < 1<<39 {
		t.Errorf("a pause of %d", d)
	}
}

func TestTheSmallestSpread(t *testing.T) {
	for d := range 10 {
		if got := Jitter(2); got != 1 {
			t.Fatalf("draw %d: 2 became %d, want what is below it", d, got)
		}
	}
}
