package line

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/dibsmem"
	"github.com/dibs-go/dibs/internal/keeper"
)

// section is a section that has begun, with some waiters behind it.
type section struct {
	*house
	g     Grant
	lease *keeper.Lease
	next  chan Grant // what the waiters get
}

func (h *house) section(t *testing.T, behind int) *section {
	t.Helper()
	g, err := h.Join(t.Context(), "k", terms, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &section{house: h, g: g, lease: h.keep(t, g), next: make(chan Grant, behind)}
	h.Held("k", g.Owner, s.lease, dibsdriver.Record{})
	for range behind {
		go func() {
			if g, err := h.Join(t.Context(), "k", terms, Forever); err == nil {
				s.next <- g
			}
		}()
		synctest.Wait()
	}
	return s
}

// over ends the test.
func (s *section) over(t *testing.T) {
	t.Helper()
	s.lease.Stop()
	s.Close(dibsdriver.ErrClosed)
	s.release("k", s.g)
	s.done(t)
}

// TestTheLastToken: a lease is handed on once less than there are tokens up to the next acquisition's, each with the next one.
func TestTheLastToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHouse(dibsmem.New()).section(t, 2)
		h := s.lines["k"].held
		h.handed, h.token = dibsdriver.TokenStep-2, s.g.Token+dibsdriver.TokenStep-2
		if !s.HandOn("k", s.g.Owner, terms, func() {}) {
			t.Fatal("the last token was not used")
		}
		g := <-s.next
		if g.Token != s.g.Token+dibsdriver.TokenStep-1 {
			t.Errorf("token %d after %d", g.Token, s.g.Token)
		}
		s.keep(t, g)
		s.Held("k", g.Owner, g.Lease, dibsdriver.Record{})
		if s.HandOn("k", g.Owner, terms, func() {}) {
			t.Error("handed on with a token that may be another's")
		}
		s.over(t)
	})
}

// TestATurnLasts 50 ms from the moment at which the key was granted, if others wait.
func TestATurnLasts(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{turnTime - 1, true}, {turnTime, false}} {
		synctest.Test(t, func(t *testing.T) {
			store := dibsmem.New()
			h := &house{Lines: linesOn(&counter{Store: store, wire: 20 * time.Millisecond}), store: store}
			s := h.section(t, 1)
			s.lines["k"].held.contended = true
			time.Sleep(c.after)
			if got := s.HandOn("k", s.g.Owner, terms, func() {}); got != c.want {
				t.Errorf("after %s: %v", c.after, got)
			}
			s.over(t)
		})
	}
}

// TestTheStoreIsAskedBesideAShortSection, and before the next begins after a long one.
func TestTheStoreIsAskedBesideAShortSection(t *testing.T) {
	for _, c := range []struct{ section, took time.Duration }{{turnTime - 1, 0}, {turnTime, 10 * time.Millisecond}} {
		synctest.Test(t, func(t *testing.T) {
			store := dibsmem.New()
			count := &counter{Store: store, wire: 10 * time.Millisecond}
			h := &house{Lines: linesOn(count), store: store}
			s := h.section(t, 1)
			time.Sleep(time.Second)
			s.lines["k"].held.handedAt = time.Now()
			time.Sleep(c.section)
			start := time.Now()
			handed := s.HandOn("k", s.g.Owner, terms, func() {})
			if took := time.Since(start); !handed || took != c.took {
				t.Errorf("after a section of %s: %v, after %s", c.section, handed, took)
			}
			synctest.Wait()
			if n := count.questions.Load(); n != 1 {
				t.Errorf("%d questions", n)
			}
			s.over(t)
		})
	}
}

// TestTheStoreIsAskedOnceATurn, and no more once it has said that others wait.
func TestTheStoreIsAskedOnceATurn(t *testing.T) {
	for name, c := range map[string]struct {
		held held
		ago  time.Duration // since the last question
		want int64
	}{
		"a turn ago":           {held{}, turnTime, 1},
		"less than a turn ago": {held{}, turnTime - 1, 0},
		"under way":            {held{asking: true}, time.Hour, 0},
		"others wait":          {held{contended: true}, time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				count := &counter{Store: dibsmem.New()}
				ls := linesOn(count)
				l := ls.line("k")
				now := time.Now()
				c.held.askedAt = now.Add(-c.ago)
				l.held = &c.held
				ls.mu.Lock()
				ls.turnGoesOn(l, now, terms)
				ls.mu.Unlock()
				ls.Group.Wait(context.Background())
				if n := count.questions.Load(); n != c.want {
					t.Errorf("%d questions", n)
				}
			})
		})
	}
}

// TestHandOnRefuses what does not fit, and then no section has ended.
func TestHandOnRefuses(t *testing.T) {
	other, hold := terms, terms
	other.Note, hold.MinHold = "another", time.Second
	for name, c := range map[string]struct {
		behind int
		key    string
		terms  Terms
		before func(s *section)
	}{
		"a key without a line":        {1, "unknown", terms, func(*section) {}},
		"a key that is not held":      {1, "free", terms, func(s *section) { s.line("free") }},
		"what nobody waits for":       {0, "k", terms, func(*section) {}},
		"other terms":                 {1, "k", other, func(*section) {}},
		"a min hold":                  {1, "k", hold, func(*section) {}},
		"another's lease":             {1, "k", terms, func(s *section) { s.lines["k"].held.owner = "another" }},
		"what has not begun":          {1, "k", terms, func(s *section) { s.lines["k"].held.lease = nil }},
		"what can be trusted no more": {1, "k", terms, func(s *section) { s.lease.Stop() }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newHouse(dibsmem.New()).section(t, c.behind)
				c.before(s)
				if s.HandOn(c.key, s.g.Owner, c.terms, func() { t.Error("the section was ended") }) {
					t.Error("handed on")
				}
				delete(s.lines, "free")
				s.lines["k"].held.owner = s.g.Owner
				s.over(t)
			})
		})
	}
}

// says is a store that says something of others that wait.
type says struct {
	*dibsmem.Store
	others bool
	err    error
	after  time.Duration
}

func (s *says) Contended(context.Context, string) (bool, error) {
	time.Sleep(s.after)
	return s.others, s.err
}

// TestOnlyAClearNoMeansThatNobodyWaits.
func TestOnlyAClearNoMeansThatNobodyWaits(t *testing.T) {
	for name, c := range map[string]struct {
		says says
		want bool
		took time.Duration
	}{
		"no":       {says{}, false, 0},
		"yes":      {says{others: true}, true, 0},
		"an error": {says{err: errors.New("down")}, true, 0},
		"nothing":  {says{after: time.Second}, true, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.says.Store = dibsmem.New()
				ls := linesOn(&c.says)
				start := time.Now()
				if got := ls.contended("k", 0); got != c.want || time.Since(start) != c.took {
					t.Errorf("%v after %s", got, time.Since(start))
				}
				ls.Group.Wait(context.Background())
			})
		})
	}
}
