package line

import (
	"context"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/backoff"
	"github.com/dibs-go/dibs/internal/owner"
)

// During an outage the store is asked this often: soon enough that waiters go on within a second of its return.
const (
	outageMin = 20 * time.Millisecond
	outageMax = time.Second
)

// turn is what the goroutine of a line finds to do.
type turn int

const (
	end  turn = iota // nobody waits
	rest             // this process has the key: wait until that has ended
	ask
)

// run is the goroutine of a line: it asks the store for the head, again and again, until nobody waits.
func (l *line) run(ctx context.Context, r *round) {
	defer l.leaveAll(r)
	for {
		do, head := l.look()
		switch do {
		case end:
			return
		case rest:
			<-l.kick
			l.over(&r.wait)
			continue
		}
		a := l.ask(head.terms, r.place(head))
		l.take(r, a, l.answered(a))(ctx)
	}
}

// lead is the first question of a line, which the waiter that it begins with asks itself: nobody else is there, most often, and then no other goroutine need
// be woken for the answer. If the waiter gives up meanwhile, or there is more to do, the line's goroutine goes on. It tells whether the wait is over.
func (l *line) lead(ctx context.Context, w *waiter, over <-chan time.Time) (ended bool) {
	r := new(round)
	a := l.ask(w.terms, r.place(w))
	next := func(ctx context.Context) { l.take(r, a, l.answered(a))(ctx) }
	t := time.NewTimer(a.limit)
	defer t.Stop()
	select {
	case <-a.call.Done():
		next = l.take(r, a, true)
		if l.ends() {
			l.leaveAll(r)
			return false
		}
	case <-w.ready: // closed
	case <-over:
		ended = true
	case <-ctx.Done():
	case <-t.C:
	}
	l.all.Group.Go(func(ctx context.Context) {
		next(ctx)
		l.run(ctx, r)
	})
	return ended
}

// round is what a line has going on with the store while it runs.
type round struct {
	queue   string // the name of our place in the store's own queue, if it has one
	outages backoff.Backoff
	wait    wait
}

// place is the name under which the head asks; empty for a single attempt.
func (r *round) place(head *waiter) string {
	if head.once {
		return ""
	}
	if r.queue == "" {
		r.queue = owner.New()
	}
	return r.queue
}

func (l *line) leaveAll(r *round) {
	l.over(&r.wait)
	l.leaveQueue(r.queue, nil)
}

// take takes the answer of the store, or that there is none. It returns what to wait for before the next question.
func (l *line) take(r *round, a *attempt, answered bool) (pause func(ctx context.Context)) {
	grant, answer, underWay, err := l.conclude(a, answered)
	if underWay != nil {
		l.over(&r.wait)
		l.leaveQueue(r.queue, underWay)
		r.queue = ""
	}
	if err != nil {
		l.outage(err)
		return func(context.Context) { l.pause(r.outages.Next(outageMin, outageMax)) }
	}
	r.outages.Reset()
	if grant == nil {
		l.refuse(answer.Holder)
		return func(ctx context.Context) { l.await(ctx, r.queue, answer.Holder, &r.wait) }
	}
	l.over(&r.wait)
	if a.queue != "" {
		r.queue = "" // the store has given up our place
	}
	l.deliver(*grant, a.terms, answer.Contended)
	return func(context.Context) {}
}

// ends tells whether nobody waits any more; the line does not run then.
func (l *line) ends() bool {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	if len(l.waiters) > 0 {
		return false
	}
	l.running = false
	l.drop()
	return true
}

// look returns what is to be done, and the head of the line if that is to ask.
func (l *line) look() (turn, *waiter) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	select {
	case <-l.kick: // whatever it was about is seen here
	default:
	}
	switch {
	case len(l.waiters) == 0:
		l.running = false
		l.drop()
		return end, nil
	case l.held != nil:
		return rest, nil
	default:
		l.asks()
		return ask, l.waiters[0]
	}
}

// asks notes that a question is under way. It is called with the lock held.
func (l *line) asks() {
	l.asked++
	l.askedAt = time.Now()
}

// wait is a row of answers that were all "busy".
type wait struct {
	since  time.Time
	asked  bool            // more than once
	waker  *waking         // nil if none is under way
	woken  bool            // the last of them came upon a wake-up
	early  bool            // some did
	alarms backoff.Backoff // of wake-ups that were wrong
}

// over ends the row. A wait in the store that has come to a turn in the same moment gives it up.
func (l *line) over(w *wait) {
	if k := w.waker; k != nil {
		k.cancel()
		l.all.Group.Go(func(context.Context) {
			if <-k.done; k.err == nil {
				l.leaveQueue(k.queue, nil)
			}
		})
	}
	*w = wait{}
}

// waking is a wait in the store.
type waking struct {
	queue  string
	since  time.Time
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended
	err    error         // nil: the key may be free
}

// await returns when it is time to ask again after "busy": when the store wakes us, or after a pause. A wait in the store goes on while we ask, which we
// do once a second at the least: to keep our place, and to hear of it when the store is away.
func (l *line) await(ctx context.Context, queue string, busy dibsdriver.Record, w *wait) {
	lim := l.all.Limits
	if w.since.IsZero() {
		w.since = time.Now()
	}
	if w.woken { // in vain: a store that wakes us for nothing, and not just too early, is not asked as often as it likes
		w.woken = false
		if w.early {
			l.pause(w.alarms.Next(lim.PollMin, lim.PollMax))
		}
		w.early = true
	}
	poll := backoff.Jitter(2 * min(max(time.Since(w.since)/8, lim.PollMin), lim.PollMax))
	pause, wakes := poll, l.wakes(ctx, queue, w)
	if wakes {
		pause = dibsdriver.QueueAsk - backoff.Jitter(dibsdriver.QueueAsk/10)
		if !w.asked { // spread, over the processes that began to wait at the same moment
			w.asked, pause = true, backoff.Jitter(dibsdriver.QueueAsk)
		}
	}
	if busy.Token != 0 && busy.ExpiresIn < pause {
		pause = busy.ExpiresIn + backoff.Jitter(lim.PollMin)
	}
	if !wakes {
		l.pause(pause)
		return
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	for {
		select {
		case <-w.waker.done:
			w.woken = w.waker.err == nil
			long := time.Since(w.waker.since) >= dibsdriver.QueueAsk
			w.waker = nil
			switch {
			case w.woken:
				return
			case long && l.wakes(ctx, queue, w): // its time was over
				continue
			}
			l.pause(poll) // it cannot tell
		case <-l.kick:
		case <-t.C:
		}
		return
	}
}

// wakes lets the store wake us, if it can.
func (l *line) wakes(ctx context.Context, queue string, w *wait) bool {
	waker, ok := l.all.Driver.(dibsdriver.Waker)
	if !ok || queue == "" || w.waker != nil {
		return w.waker != nil
	}
	k := &waking{queue: queue, since: time.Now(), done: make(chan struct{})}
	slice := dibsdriver.QueueGrace - 500*time.Millisecond // should the next in line be dead
	ctx, k.cancel = context.WithTimeout(ctx, slice)
	w.waker = k
	l.all.Group.Go(func(context.Context) {
		defer close(k.done)
		defer k.cancel()
		k.err = waker.Wait(ctx, dibsdriver.WaitParams{Key: l.key, Waiter: queue})
	})
	return true
}

// pause waits for d, or until something has changed in the line.
func (l *line) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.kick:
	}
}

// leaveQueue gives up our place in the store's queue, if we may have one; once more when a request that is under way, and may
// put us there again, has ended.
func (l *line) leaveQueue(queue string, underWay <-chan struct{}) {
	q, ok := l.all.Driver.(dibsdriver.Leaver)
	if queue == "" || !ok {
		return
	}
	l.all.Group.Go(func(ctx context.Context) {
		l.leavePlace(ctx, q, queue)
		if underWay == nil {
			return
		}
		select {
		case <-underWay:
			l.leavePlace(ctx, q, queue)
		case <-ctx.Done():
		}
	})
}

func (l *line) leavePlace(ctx context.Context, q dibsdriver.Leaver, queue string) {
	var pause backoff.Backoff
	end := time.Now().Add(dibsdriver.QueueGrace) // by then it has lapsed
	for time.Now().Before(end) {
		reqCtx, cancel := context.WithTimeout(ctx, l.all.Timeout)
		err := q.Leave(reqCtx, dibsdriver.WaitParams{Key: l.key, Waiter: queue})
		cancel()
		if err == nil || ctx.Err() != nil {
			return
		}
		t := time.NewTimer(pause.Next(outageMin, outageMax))
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
	}
}
