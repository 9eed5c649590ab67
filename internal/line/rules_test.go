package line

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/dibsmem"
)

// What a line knows decides what a waiter is told: each rule by itself.

// told tells whether the waiter's wait is over.
func (w *waiter) told() bool {
	select {
	case <-w.ready:
		return true
	default:
		return false
	}
}

// TestAnAnswerIsForThoseWhoCameBeforeItsQuestion.
func TestAnAnswerIsForThoseWhoCameBeforeItsQuestion(t *testing.T) {
	h := newHouse(dibsmem.New())
	for _, c := range []struct {
		name string
		w    waiter
		err  error // nil: busy
		over bool
	}{
		{"busy, one attempt", waiter{once: true, came: 1}, nil, true},
		{"busy, one attempt that came after it", waiter{once: true, came: 2}, nil, false},
		{"busy, waits", waiter{came: 1}, nil, false},
		{"down, first contact", waiter{came: 1}, dibsdriver.ErrUnavailable, true},
		{"down, first contact after it", waiter{came: 2}, dibsdriver.ErrUnavailable, false},
		{"down, waits", waiter{came: 1, contacted: true}, dibsdriver.ErrUnavailable, false},
		{"down, one attempt", waiter{came: 1, contacted: true, once: true}, dibsdriver.ErrUnavailable, true},
		{"down, one attempt after it", waiter{came: 2, contacted: true, once: true}, dibsdriver.ErrUnavailable, false},
		{"refused, waits", waiter{came: 1, contacted: true}, dibsdriver.ErrRefused, true},
		{"refused, came after it", waiter{came: 2, contacted: true}, dibsdriver.ErrRefused, false},
		{"closed, waits", waiter{came: 1, contacted: true}, dibsdriver.ErrClosed, true},
	} {
		w := c.w
		w.ready = make(chan struct{})
		l := &line{all: h.Lines, key: "k", kick: make(chan struct{}, 1), asked: 2, waiters: []*waiter{&w}}
		if c.err == nil {
			l.refuse(dibsdriver.Record{})
		} else {
			l.outage(c.err)
		}
		if w.told() != c.over || len(l.waiters) == 0 != c.over {
			t.Errorf("%s: over %v, %d in line", c.name, w.told(), len(l.waiters))
		}
	}
}

func TestAnAnswerIsFreshForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		now := time.Now()
		down := errors.New("down")
		for name, c := range map[string]struct {
			l    line
			want bool
		}{
			"never heard":             {line{}, false},
			"fresh":                   {line{heardAt: now.Add(1 - silence)}, true},
			"a second old":            {line{heardAt: now.Add(-silence)}, false},
			"fresh, but failed since": {line{heardAt: now, failed: down}, false},
			"old, and failed since":   {line{heardAt: now.Add(-time.Minute), failed: down}, false},
		} {
			if got := c.l.answering(); got != c.want {
				t.Errorf("%s: %v", name, got)
			}
		}
	})
}

// TestBusyIsSaidOnlyByWhoKnows: otherwise whoever leaves is told that the store has not answered.
func TestBusyIsSaidOnlyByWhoKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		time.Sleep(time.Hour)
		now := time.Now()
		for name, c := range map[string]struct {
			l    line
			w    waiter
			busy bool
		}{
			"nothing is known":                 {line{}, waiter{}, false},
			"the store has answered":           {line{}, waiter{contacted: true}, true},
			"this process has the key":         {line{held: &held{}}, waiter{}, true},
			"the last answer was busy":         {line{busy: &dibsdriver.Record{}}, waiter{}, true},
			"asked a second ago":               {line{askedAt: now.Add(-silence)}, waiter{contacted: true}, true},
			"asked more than a second ago":     {line{askedAt: now.Add(-silence - 1)}, waiter{contacted: true}, false},
			"asked, and the last was an error": {line{askedAt: now, failed: dibsdriver.ErrUnavailable}, waiter{contacted: true}, false},
		} {
			c.l.all = h.Lines
			err := c.l.reason(&c.w, nil)
			if _, busy := errors.AsType[*BusyError](err); busy != c.busy || !busy && !errors.Is(err, dibsdriver.ErrUnavailable) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestLeavingInTheMomentOfAFailure: whose wait is over is told of the failure, whose context ended of that.
func TestLeavingInTheMomentOfAFailure(t *testing.T) {
	h := newHouse(dibsmem.New())
	l := h.line("k")
	w := &waiter{ready: make(chan struct{})}
	w.fail(dibsdriver.ErrClosed)
	if err := l.leave(w, nil); err != dibsdriver.ErrClosed {
		t.Errorf("the wait was over: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := l.leave(w, ctx)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the context had ended: %v", err)
	}
	if n := strings.Count(err.Error(), context.Canceled.Error()); n != 1 {
		t.Errorf("told %d times that it was cancelled: %v", n, err)
	}
}

// TestHalfAWindowIsEnoughForTheNext to get a lease that its waiter did not want any more.
func TestHalfAWindowIsEnoughForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		half := terms.window() / 2
		young, old := Grant{Started: time.Now().Add(1 - half)}, Grant{Started: time.Now().Add(-half)}
		if !young.fresh(terms) || old.fresh(terms) {
			t.Errorf("younger than half a window: %v, as old: %v", young.fresh(terms), old.fresh(terms))
		}
		g, err := h.Join(t.Context(), "k", terms, 0)
		if err != nil {
			t.Fatal(err)
		}
		kept := Grant{Lease: h.keep(t, g)}
		h.store.Fail(dibsdriver.ErrUnavailable) // not renewed
		time.Sleep(half)
		if !kept.fresh(terms) {
			t.Error("half a window is left, which is enough")
		}
		time.Sleep(time.Nanosecond)
		if kept.fresh(terms) {
			t.Error("less than half a window is left")
		}
		h.store.Fail(nil)
		kept.Lease.Stop()
		h.release("k", g)
		h.done(t)
	})
}

// TestHeldTellsItsOwnLineOnly.
func TestHeldTellsItsOwnLineOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(dibsmem.New())
		h.Held("unknown", "o", nil, dibsdriver.Record{})
		h.line("free")
		h.Held("free", "o", nil, dibsdriver.Record{})
		h.Held("free", "", nil, dibsdriver.Record{})
		h.Ended("free", "o") // nor does it mind a line whose key is free
		delete(h.lines, "free")

		g, _ := h.Join(t.Context(), "k", terms, 0)
		lease := h.keep(t, g)
		h.Held("k", g.Owner, lease, dibsdriver.Record{Note: "ours"})
		h.Held("k", "somebody else", nil, dibsdriver.Record{Note: "not ours"})
		h.Ended("k", "somebody else")
		_, err := h.Join(t.Context(), "k", terms, 0)
		if b := busy(t, err); b.Holder.Note != "ours" || b.Left == 0 {
			t.Errorf("%+v", b)
		}
		lease.Stop()
		h.release("k", g)
		h.done(t)
	})
}
