package outbox

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs/internal/call"
)

func TestInOrderAndWithoutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := call.NewGroup()
		o := New(g)
		var got []int
		start := time.Now()
		for i := range 100 {
			o.Post(func() {
				time.Sleep(time.Second)
				got = append(got, i)
			})
		}
		if time.Since(start) != 0 {
			t.Error("Post waited")
		}
		g.Wait(context.Background())
		for i := range got {
			if got[i] != i {
				t.Fatal(got)
			}
		}
		if len(got) != 100 || o.running {
			t.Error(len(got), o.running)
		}
		o.Post(func() { got = nil }) // again, after its goroutine has ended
		g.Wait(context.Background())
		if got != nil {
			t.Error("not delivered")
		}
	})
}

func TestWhatABlockedReceiverCostsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := call.NewGroup()
		o := New(g)
		over := make(chan struct{})
		o.Post(func() { <-over })
		synctest.Wait()
		n := 0
		for range limit + 10 {
			o.Post(func() { n++ })
		}
		close(over)
		g.Wait(context.Background())
		if n != limit {
			t.Errorf("%d delivered, limit %d", n, limit)
		}
	})
}
