package dibsdrivertest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-go/dibs"
)

var lineCases = []testcase{
	{name: "L3/first_come_first_served", run: lineOrder, needs: realTime | alone},
	{name: "L3/try_does_not_jump_the_line", run: lineTry},
	{name: "L3/different_terms_keep_their_order", run: lineTerms},
	{name: "L3/only_the_head_asks", run: lineHead},
}

// lineOrder: two hundred goroutines get the key in the order in which they came.
func lineOrder(e *env) {
	a, b := e.lockerWith(dibs.Config{TTL: 10 * e.ttl}), e.locker()
	if e.f.session(e) {
		a = e.locker()
	}
	held, _ := e.hold(b, "k")
	var mu sync.Mutex
	var order []int
	var wg sync.WaitGroup
	for i := range 200 {
		started := make(chan struct{})
		wg.Go(func() {
			close(started)
			err := a.Do(e.Context(), "k", func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
				return nil
			}, dibs.MaxWait(60*time.Second))
			if err != nil {
				e.Errorf("waiter %d: %v", i, err)
			}
		})
		<-started
		time.Sleep(2 * time.Millisecond) // it has nothing left to do but to join
	}
	e.ok(held.Release(), "release")
	wg.Wait()
	swaps := 0
	for i, n := range order {
		if i > 0 && n < order[i-1] {
			swaps++
		}
	}
	// On a loaded machine a goroutine may need longer than its 2 ms to join.
	if e.exact && swaps > 0 || swaps > 5 || len(order) != 200 {
		e.Errorf("%d times not in order: %v", swaps, order)
	}
}

func lineTry(e *env) {
	a, b := e.locker(), e.locker()
	held, _ := e.hold(b, "k")
	next := e.waits(a, "k")
	time.Sleep(100 * time.Millisecond)
	stop := make(chan struct{})
	var jumped atomic.Int32
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if lock, _, err := a.TryAcquire(e.Context(), "k"); err == nil {
				jumped.Add(1)
				lock.Release()
			} else if !errors.Is(err, dibs.ErrBusy) {
				e.Errorf("try: %v", err)
			}
			time.Sleep(time.Millisecond)
		}
	})
	time.Sleep(100 * time.Millisecond)
	e.ok(held.Release(), "release")
	n := e.got(next, e.slack)
	close(stop)
	wg.Wait()
	if jumped.Load() > 0 {
		e.Errorf("%d attempts jumped the line", jumped.Load())
	}
	e.ok(n.lock.Release(), "release")
}

func lineTerms(e *env) {
	a, b := e.locker(), e.locker()
	held, _ := e.hold(b, "k")
	opts := [][]dibs.Option{{}, {dibs.Note("second")}, {dibs.MaxHold(time.Hour)}, {}}
	if !e.f.session(e) {
		opts = append(opts, []dibs.Option{dibs.TTL(2 * e.ttl)}, []dibs.Option{dibs.MinHold(e.ttl / 4)}, []dibs.Option{})
	}
	var waits []<-chan taken
	for _, o := range opts {
		waits = append(waits, e.waits(a, "k", o...))
		time.Sleep(100 * time.Millisecond)
	}
	e.ok(held.Release(), "release")
	for i, w := range waits {
		n := e.got(w, 2*e.ttl+e.slack)
		for j, later := range waits[i+1:] {
			if len(later) > 0 {
				e.Errorf("waiter %d had the key before waiter %d", i+1+j, i)
			}
		}
		if i == 1 {
			if b := e.busy(b, "k"); b.Holder.Note != "second" {
				e.Errorf("the note is %q", b.Holder.Note)
			}
		}
		e.ok(n.lock.Release(), "release")
	}
}

// lineHead: however many wait in a process, one of them speaks to the store.
func lineHead(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	b := e.locker()
	held, _ := e.hold(b, "k")
	ctx, cancel := context.WithCancel(e.Context())
	var wg sync.WaitGroup
	var most atomic.Int32
	var now atomic.Int32
	faults.On(OpAcquire, Always, func(c *Call) error {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		return c.Apply(c.Ctx)
	})
	for range 100 {
		wg.Go(func() {
			if _, _, err := a.Acquire(ctx, "k"); err == nil {
				e.Error("a second holder")
			}
		})
	}
	time.Sleep(2 * time.Second)
	cancel()
	wg.Wait()
	if most.Load() > 1 {
		e.Errorf("%d requests at once", most.Load())
	}
	e.ok(held.Release(), "release")
}
