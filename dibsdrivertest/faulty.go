package dibsdrivertest

import (
	"context"
	"sync"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// Op is a move of a driver.
type Op int

// The moves that can be made to go wrong. Limits and Close cannot.
const (
	OpAcquire Op = iota
	OpRenew
	OpRelease
	OpList
	OpBreak
	OpPing
	OpWait
	OpLeave
	OpContended
	ops
)

// FaultyDriver wraps a driver whose moves go wrong by rule:
//
//	f := Faulty(d)
//	f.On(OpRenew, Nth(1), FailBefore(err))     // the first renewal from now on fails
//	f.On(OpAcquire, Always, DropReply())       // acquisitions are applied, their answers are lost
//	l, _ := dibs.New(f.Driver(), nil)
//
// It counts calls, ruled or not.
type FaultyDriver struct {
	inner dibsdriver.Driver

	mu    sync.Mutex
	rules []*Rule
	calls [ops]int
	last  [ops]time.Time // when the last call that succeeded began
	late  sync.WaitGroup
}

// Rule is a rule that was set with On.
type Rule struct {
	d     *FaultyDriver
	op    Op
	when  When
	fault Fault
	seen  int
	hits  int
	off   chan struct{} // closed when the rule is off
}

// Faulty wraps d. Until a rule is set it changes nothing.
func Faulty(d dibsdriver.Driver) *FaultyDriver { return &FaultyDriver{inner: d} }

// Driver returns the driver to be used; it is a Waker or a Leaver only if the wrapped one is.
func (f *FaultyDriver) Driver() dibsdriver.Driver {
	_, wakes := f.inner.(dibsdriver.Waker)
	_, leaves := f.inner.(dibsdriver.Leaver)
	m := faultyMoves{f}
	switch {
	case wakes && leaves:
		return struct {
			faultyMoves
			faultyWaker
			faultyLeaver
		}{m, faultyWaker{f}, faultyLeaver{f}}
	case wakes:
		return struct {
			faultyMoves
			faultyWaker
		}{m, faultyWaker{f}}
	case leaves:
		return struct {
			faultyMoves
			faultyLeaver
		}{m, faultyLeaver{f}}
	}
	return m
}

// On makes those calls of a move go wrong that when selects, counted from now. A later rule goes before an earlier one.
func (f *FaultyDriver) On(op Op, when When, fault Fault) *Rule {
	r := &Rule{d: f, op: op, when: when, fault: fault, off: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, r)
	return r
}

// OnAll makes every move go wrong: the store is away.
func (f *FaultyDriver) OnAll(fault Fault) {
	for op := range ops {
		f.On(op, Always, fault)
	}
}

// Off ends the rule and lets go of calls that hang by it.
func (r *Rule) Off() {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	select {
	case <-r.off:
	default:
		close(r.off)
	}
}

// Hits is how many calls the rule has hit.
func (r *Rule) Hits() int {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	return r.hits
}

// Heal ends all rules.
func (f *FaultyDriver) Heal() {
	f.mu.Lock()
	rules := f.rules
	f.rules = nil
	f.mu.Unlock()
	for _, r := range rules {
		r.Off()
	}
}

// Calls is how many calls of a move there have been.
func (f *FaultyDriver) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

// LastGood is when the last call of a move began that succeeded; trust windows count from there.
func (f *FaultyDriver) LastGood(op Op) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last[op]
}

// Call is one call on its way through a FaultyDriver.
type Call struct {
	Op   Op
	Ctx  context.Context
	Keys []string
	// Owner is that of an acquire or a release.
	Owner string
	// Acquired and Answers are what Apply got, which a fault may change.
	Acquired dibsdriver.AcquireResult
	Answers  []dibsdriver.RenewAnswer

	d     *FaultyDriver
	rule  *Rule
	apply func(ctx context.Context, c *Call) error
}

// Apply makes the call to the wrapped driver. A wait changes nothing at the store, and never outlives its own context.
func (c *Call) Apply(ctx context.Context) error {
	if c.Op == OpWait {
		ctx = c.Ctx
	}
	return c.apply(ctx, c)
}

// do sends a call on its way.
func (f *FaultyDriver) do(c *Call) error {
	c.d = f
	f.mu.Lock()
	f.calls[c.Op]++
	for i := len(f.rules) - 1; i >= 0 && c.rule == nil; i-- {
		if r := f.rules[i]; r.selects(c) {
			c.rule = r
		}
	}
	f.mu.Unlock()
	began := time.Now()
	var err error
	if c.rule != nil {
		err = c.rule.fault(c)
	} else {
		err = c.Apply(c.Ctx)
	}
	if err == nil {
		f.mu.Lock()
		if began.After(f.last[c.Op]) {
			f.last[c.Op] = began
		}
		f.mu.Unlock()
	}
	return err
}

// selects is called with the lock held.
func (r *Rule) selects(c *Call) bool {
	select {
	case <-r.off:
		return false
	default:
	}
	if r.op != c.Op {
		return false
	}
	r.seen++
	if !r.when(r.seen, c) {
		return false
	}
	r.hits++
	return true
}
