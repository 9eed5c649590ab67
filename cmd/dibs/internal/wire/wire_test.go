//go:build unix

package wire

import (
	"bytes"
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

// A peer that is cut off in the middle of a message has said nothing, and what is no message hurts nobody.
func TestHalfAMessageIsNone(t *testing.T) {
	whole := Msg{Word: Failed, N: -3, At: 4, Text: "text"}.bytes()
	for n := range len(whole) {
		got := make(chan Msg, 1)
		Receive(bytes.NewReader(whole[:n]), got)
		if m, ok := <-got; ok {
			t.Errorf("%d bytes: %v", n, m)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(Msg{Word: Ended, N: 1, At: 2, Text: "x"}.bytes()[head:])
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := parse(b)
		if !ok {
			return
		}
		if again := m.bytes()[head:]; !bytes.Equal(again, b) {
			t.Errorf("%q: %v, then %q", b, m, again)
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
