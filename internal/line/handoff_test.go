package line

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/dibsmem"
)

// sections lets workers of a process take the key in turns until ctx ends, and tells how often they did and how often the store was asked.
func (h *house) sections(t *testing.T, ctx context.Context, workers int, work time.Duration) *atomic.Int64 {
	n := new(atomic.Int64)
	for range workers {
		go func() {
			for {
				g, err := h.Join(ctx, "k", terms, Forever)
				if err != nil {
					return
				}
				n.Add(1)
				lease := h.keep(t, g)
				h.Held("k", g.Owner, lease, dibsdriver.Record{Token: g.Token})
				time.Sleep(work)
				if !h.HandOn("k", g.Owner, terms, func() {}) {
					lease.Stop()
					h.release("k", g)
				}
			}
		}()
	}
	return n
}

func TestHandoffsEndWithTheTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := dibsmem.New()
		h := process(store)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		n := h.sections(t, ctx, 5, time.Millisecond)
		token := func() int64 { // in the midst of a section
			time.Sleep(500 * time.Microsecond)
			held, err := store.List(t.Context(), "")
			if err != nil || len(held) != 1 {
				t.Fatal(held, err)
			}
			return held[0].Token
		}
		first := token()
		time.Sleep(9 * time.Second)
		last := token()
		<-ctx.Done()
		if n.Load() < 9_900 {
			t.Errorf("%d sections of 1 ms in 10 s", n.Load())
		}
		time.Sleep(time.Second) // the last section ends
		synctest.Wait()
		if last-first < dibsdriver.TokenStep {
			t.Errorf("one acquisition was handed on more often than tokens allow: %d, then %d", first, last)
		}
		h.done(t)
	})
}

// TestNobodyElseWaits: then the store hears nothing between two questions whether somebody does.
func TestNobodyElseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := dibsmem.New()
		h := &house{Lines: linesOn(&counter{Store: store}), store: store}
		count := h.Driver.(*counter)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		n := h.sections(t, ctx, 5, 20*time.Millisecond)
		<-ctx.Done()
		if n.Load() < 490 || count.acquires.Load() > 2 || count.questions.Load() < 100 || count.questions.Load() > 200 {
			t.Errorf("%d sections of 20 ms in 10 s, with %d acquisitions and %d questions", n.Load(), count.acquires.Load(), count.questions.Load())
		}
		time.Sleep(time.Second) // the last section ends
		synctest.Wait()
		h.done(t)
	})
}

// TestOthersGetTheirTurn: while others wait, a process hands its lease on for a moment only.
func TestOthersGetTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := dibsmem.New()
		a, b := process(store), process(store)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		n := a.sections(t, ctx, 50, 5*time.Millisecond)
		var longest time.Duration
		for ctx.Err() == nil {
			began := time.Now()
			g, err := b.Join(ctx, "k", terms, Forever)
			if err != nil {
				break
			}
			longest = max(longest, time.Since(began))
			b.release("k", g)
		}
		if longest == 0 || longest > 2*turnTime+10*time.Millisecond {
			t.Errorf("another process waited %s for its turn", longest)
		}
		if n.Load() < 3500 {
			t.Errorf("%d sections of 5 ms in 20 s", n.Load())
		}
		time.Sleep(time.Second) // the last section ends
		synctest.Wait()
		a.done(t)
		b.done(t)
	})
}

// TestAStoreThatDoesNotSay whether others wait is taken to say yes, soon.
func TestAStoreThatDoesNotSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := dibsmem.New()
		h := &house{Lines: linesOn(&counter{Store: store, hangs: true}), store: store}
		count := h.Driver.(*counter)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		n := h.sections(t, ctx, 5, 20*time.Millisecond)
		<-ctx.Done()
		if n.Load() < 150 || count.acquires.Load() < 50 {
			t.Errorf("%d sections, %d acquisitions", n.Load(), count.acquires.Load())
		}
		time.Sleep(time.Second) // the last section ends
		synctest.Wait()
		h.done(t)
	})
}

// TestAStoreThatIsFarAway is not taken to have no answer.
func TestAStoreThatIsFarAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := dibsmem.New()
		h := &house{Lines: linesOn(&counter{Store: store, wire: 2 * askLimit}), store: store}
		count := h.Driver.(*counter)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		n := h.sections(t, ctx, 5, 20*time.Millisecond)
		<-ctx.Done()
		if n.Load() < 480 || count.acquires.Load() > 2 {
			t.Errorf("%d sections of 20 ms in 10 s, with %d acquisitions", n.Load(), count.acquires.Load())
		}
		time.Sleep(time.Second) // the last section ends
		synctest.Wait()
		h.done(t)
	})
}

// counter counts what the store is asked.
type counter struct {
	*dibsmem.Store
	acquires, questions atomic.Int64
	hangs               bool
	wire                time.Duration // there and back
}

func (c *counter) Acquire(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
	c.acquires.Add(1)
	time.Sleep(c.wire)
	return c.Store.Acquire(ctx, p)
}

func (c *counter) Contended(ctx context.Context, key string) (bool, error) {
	c.questions.Add(1)
	if c.hangs {
		<-ctx.Done()
		return false, ctx.Err()
	}
	time.Sleep(c.wire)
	if err := ctx.Err(); err != nil {
		return false, err
	}
	return c.Store.Contended(ctx, key)
}
