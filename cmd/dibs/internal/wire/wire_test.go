//go:build unix

package wire

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestMessagesArriveAsSent(t *testing.T) {
	r, w := io.Pipe()
	sent := []Msg{
		{Word: Deadline, At: Now()}, {Word: Go}, {Word: Stop, Text: Lost},
		{Word: Failed, N: 127, Text: "a\nb \"c\" \xff\x00"}, {Word: Failed, Text: strings.Repeat("long ", 20_000)},
		{Word: Ended, N: 256, At: -1},
	}
	go func() {
		for _, m := range sent {
			Send(w, m)
			_, _ = io.WriteString(w, "nonsense\n1 2\n")
		}
		w.Close()
	}()
	got := make(chan Msg)
	go Receive(r, got)
	for _, want := range sent {
		if m := <-got; m != want {
			t.Errorf("%v, want %v", m, want)
		}
	}
	if m, ok := <-got; ok {
		t.Errorf("%v came from nowhere", m)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`ended 1 2 "x"`)
	f.Fuzz(func(t *testing.T, line string) {
		m, err := Parse(line)
		if err != nil {
			return
		}
		if again, err := Parse(m.String()); err != nil || again != m {
			t.Errorf("%q: %v, then %v, %v", line, m, again, err)
		}
	})
}

func TestClock(t *testing.T) {
	begin := Now()
	if left := begin.Add(time.Hour).Until(); left > time.Hour || left < time.Hour-time.Minute {
		t.Errorf("%s", left)
	}
	if Now() < begin {
		t.Error("the clock goes back")
	}
}
