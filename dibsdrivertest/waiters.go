package dibsdrivertest

import (
	"context"
	"sync"
	"time"

	"github.com/dibs-go/dibs"
)

var waitCases = []testcase{
	{name: "L2/B17/cancel_between_two_tries", run: waitCancel},
	{name: "L2/B17/max_wait_is_not_the_ttl", run: waitMax, needs: freeTTL},
	{name: "L2/B17/wait_longer_than_the_ttl", run: waitLong},
	{name: "L2/B17/wait_zero", run: waitZero},
	{name: "L2/B17/second_in_line_is_told_busy", run: waitSecond},
	{name: "L2/B17/cancelled_before", run: waitCancelled},
	{name: "L2/many_cancelled_leave_nothing", run: waitMany},
	{name: "L2/request_under_way_leaves_no_place", run: waitUnderWay, needs: countsLine},
	{name: "L2/busy_says_who", run: waitBusy},
	{name: "L2/cause_of_the_context", run: waitCause},
	{name: "L3/waits_end_with_the_lock", run: waitEnds},
}

// prompt is how soon a waiter has to be back.
func (e *env) prompt() time.Duration {
	if e.exact {
		return 50 * time.Millisecond
	}
	return time.Second // 50 ms on a machine of one's own
}

func (e *env) promptly(since time.Time, what string) {
	e.Helper()
	if d := time.Since(since); d > e.prompt() {
		e.Errorf("%s took %s", what, d)
	}
}

func waitCancel(e *env) {
	a := e.locker()
	b, faults := e.faultyLocker(dibs.Config{})
	lock, _ := e.hold(a, "k")
	for _, l := range []*dibs.Locker{a, b} { // the holder's process, and another
		ctx, cancel := context.WithCancel(e.Context())
		got := make(chan error, 1)
		go func() {
			_, _, err := l.Acquire(ctx, "k")
			got <- err
		}()
		e.until(10*time.Second, "the store has answered", func() bool { return l == a || !faults.LastGood(OpAcquire).IsZero() })
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		cancel()
		err := receive(e, got)
		e.promptly(began, "being cancelled")
		e.is(err, context.Canceled, "the wait")
		e.is(err, dibs.ErrBusy, "the wait") // what was known last
	}
	e.ok(lock.Verify(e.Context()), "the holder asks")
	e.ok(lock.Release(), "release")
}

func waitMax(e *env) {
	a, b := e.lockerWith(dibs.Config{TTL: longTTL}), e.lockerWith(dibs.Config{TTL: longTTL})
	lock, _ := e.hold(a, "k")
	for _, l := range []*dibs.Locker{a, b} {
		began, wait := time.Now(), time.Second+e.f.trips(20)
		_, _, err := l.Acquire(e.Context(), "k", dibs.MaxWait(wait), dibs.TTL(30*time.Second))
		e.is(err, dibs.ErrBusy, "the wait")
		e.isNot(err, context.DeadlineExceeded, "the wait")
		e.took(began, wait, time.Second, "the wait")
		e.promptly(began.Add(wait), "the end of the wait")
	}
	e.ok(lock.Release(), "release")
}

func waitLong(e *env) {
	a, b := e.locker(), e.locker()
	lock, _ := e.hold(a, "k")
	next := e.waits(b, "k")
	time.Sleep(3 * e.ttl)
	e.ok(lock.Release(), "release")
	released := time.Now()
	n := e.got(next, 5*time.Second)
	if d := n.at.Sub(released); d > e.slack {
		e.Errorf("the waiter had the key %s after it was free", d)
	}
	e.ok(n.lock.Release(), "release")
}

func waitZero(e *env) {
	a, b := e.locker(), e.locker()
	began := time.Now()
	lock, _, err := a.Acquire(e.Context(), "k", dibs.MaxWait(0))
	e.ok(err, "a free key")
	_, _, err = b.Acquire(e.Context(), "k", dibs.MaxWait(0))
	e.is(err, dibs.ErrBusy, "a busy key")
	_, _, err = a.Acquire(e.Context(), "k", dibs.MaxWait(0))
	e.is(err, dibs.ErrBusy, "a busy key of our own")
	e.took(began, 0, 0, "three attempts")
	e.ok(lock.Release(), "release")
}

// waitSecond: the store has just told the head of the line that the key is busy. Who stands behind it and gives up soon has not met a
// store that is silent.
func waitSecond(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	held, _ := e.hold(e.locker(), "k")
	head := e.waits(a, "k")
	e.until(10*time.Second, "the store has answered", func() bool { return !faults.LastGood(OpAcquire).IsZero() })
	time.Sleep(50 * time.Millisecond)
	for range 3 {
		_, _, err := a.Acquire(e.Context(), "k", dibs.MaxWait(50*time.Millisecond))
		e.is(err, dibs.ErrBusy, "a short wait behind another")
		e.isNot(err, dibs.ErrUnavailable, "a short wait behind another")
	}
	e.ok(held.Release(), "release")
	n := e.got(head, 5*time.Second)
	e.ok(n.lock.Release(), "release")
}

func waitCancelled(e *env) {
	a := e.locker()
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	_, _, err := a.Acquire(ctx, "k")
	e.is(err, context.Canceled, "acquire")
	_, _, err = a.TryAcquire(ctx, "k")
	e.is(err, context.Canceled, "try")
	ran, err := a.TryDo(ctx, "k", func(context.Context) error { return nil })
	if e.is(err, context.Canceled, "try-do"); ran {
		e.Error("ran")
	}
	if e.store.Peek(e, "k").Held {
		e.Error("the key is set")
	}
}

// waitMany: two hundred waiters give up at once. Each is back at once, and nothing of them is left.
func waitMany(e *env) {
	a, b, c := e.locker(), e.locker(), e.locker()
	lock, _ := e.hold(a, "k")
	ctx, cancel := context.WithCancel(e.Context())
	var wg sync.WaitGroup
	for i := range 200 {
		l := []*dibs.Locker{a, b}[i%2]
		wg.Go(func() {
			_, _, err := l.Acquire(ctx, "k")
			if err == nil {
				e.Error("a second holder")
			}
		})
	}
	time.Sleep(300 * time.Millisecond)
	began := time.Now()
	cancel()
	wg.Wait()
	e.promptly(began, "200 being cancelled")
	if q, ok := e.store.(QueueCounter); ok {
		e.until(time.Second+e.slack, "nothing is left in the queue", func() bool { return q.Queued(e, "k") == 0 })
	}
	e.ok(lock.Release(), "release")
	released := time.Now()
	e.free(c, "k", 5*time.Second)
	if d := time.Since(released); d > e.slack {
		e.Errorf("those who left delayed the next by %s", d)
	}
}

// waitUnderWay: a waiter gives up while its question is on its way. The question must not get it a place in the store's queue after
// that, where it would hold up the others until it is found to be dead.
func waitUnderWay(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	q := e.store.(QueueCounter)
	held, _ := e.hold(e.locker(), "k", e.lasting()...)
	faults.On(OpAcquire, Nth(1), Delay(300*time.Millisecond, 0))
	began := time.Now()
	_, _, err := a.Acquire(e.Context(), "k", dibs.MaxWait(100*time.Millisecond))
	e.unknown(err, "a wait without an answer")
	e.until(10*time.Second, "the question has arrived", func() bool { return !faults.LastGood(OpAcquire).Before(began) })
	e.until(700*time.Millisecond, "nothing is left in the queue", func() bool { return q.Queued(e, "k") == 0 })
	e.throughout(time.Second, "nothing is left in the queue", func() bool { return q.Queued(e, "k") == 0 })
	e.ok(held.Release(), "release")
}

func waitBusy(e *env) {
	a, b := e.lockerWith(dibs.Config{Name: "the holder's name"}), e.locker()
	lock, _ := e.hold(a, "k", dibs.Note("nightly report"))
	for _, l := range []*dibs.Locker{a, b} {
		busy := e.busy(l, "k")
		h := busy.Holder
		if busy.Key != "k" || h.Key != "k" || h.Holder != "the holder's name" || h.Note != "nightly report" || h.Token != lock.Token() {
			e.Errorf("busy: %+v", busy)
		}
		if busy.Left <= 0 || busy.Left > e.ttl {
			e.Errorf("%s are left of a TTL of %s", busy.Left, e.ttl)
		}
	}
	e.ok(lock.Release(), "release")
}

func waitCause(e *env) {
	a, b := e.locker(), e.locker()
	lock, _ := e.hold(a, "k")
	ctx, cancel := context.WithCancelCause(e.Context())
	time.AfterFunc(100*time.Millisecond, func() { cancel(errWork) })
	_, _, err := b.Acquire(ctx, "k")
	e.is(err, context.Canceled, "the wait")
	e.is(err, errWork, "the wait")
	e.ok(lock.Release(), "release")
	_, _, err = b.Acquire(ctx, "k")
	e.is(err, context.Canceled, "the wait")
	e.is(err, errWork, "the wait")
}

// waitEnds: a waiter has the key soon after its release, its expiry and its breaking.
func waitEnds(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	b := e.locker()
	for _, end := range []func(*dibs.Lock) time.Time{
		func(l *dibs.Lock) time.Time { e.ok(l.Release(), "release"); return time.Now() },
		func(l *dibs.Lock) time.Time {
			_, err := b.BreakNow(e.Context(), "k", l.Token())
			e.ok(err, "break")
			return time.Now()
		},
		func(*dibs.Lock) time.Time {
			faults.OnAll(FailBefore(errAway))
			return time.Now().Add(e.store.Peek(e, "k").Left)
		},
	} {
		lock, _ := e.hold(a, "k")
		next := e.waits(b, "k")
		time.Sleep(300 * time.Millisecond)
		free := end(lock)
		n := e.got(next, 2*e.ttl+e.slack)
		if d := n.at.Sub(free); d > e.slack {
			e.Errorf("the waiter had the key %s after it was free", d)
		}
		faults.Heal()
		e.ok(n.lock.Release(), "release")
		if err := lock.Release(); err == nil {
			e.Error("released twice")
		}
	}
}
