package dibsdrivertest

import (
	"sync"
	"time"
)

// machine knows how busy this machine is, so that bounds for what has to be prompt are those that were promised where it is not.
var machine lateness

// lateness notes how late timers are.
type lateness struct {
	once sync.Once
	mu   sync.Mutex
	due  time.Time
	seen []lateTick
}

type lateTick struct {
	at time.Time
	by time.Duration
}

const (
	lateEvery  = 10 * time.Millisecond
	lateLittle = 2 * time.Millisecond // on any machine
	lateKept   = 5 * time.Minute
)

// watch begins. No goroutine stays for it.
func (l *lateness) watch() { l.once.Do(l.again) }

func (l *lateness) again() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due = time.Now().Add(lateEvery)
	time.AfterFunc(lateEvery, func() {
		l.mu.Lock()
		at := time.Now()
		if by := at.Sub(l.due); by > lateLittle {
			l.seen = append(l.seen, lateTick{at, by})
		}
		for len(l.seen) > 0 && at.Sub(l.seen[0].at) > lateKept {
			l.seen = l.seen[1:]
		}
		l.mu.Unlock()
		l.again()
	})
}

// since is the longest by which a timer was late that was due since then.
func (l *lateness) since(then time.Time) (worst time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	worst = max(0, time.Since(l.due)) // the one that is late now
	for i := len(l.seen) - 1; i >= 0 && l.seen[i].at.After(then); i-- {
		worst = max(worst, l.seen[i].by)
	}
	return worst
}

// busyFor is how much longer than on an idle machine a goroutine may take for what a timer told it to do.
func (e *env) busyFor(since time.Time) time.Duration {
	if e.exact {
		return 0
	}
	return min(500*time.Millisecond, 3*machine.since(since)) + e.f.trips(1)
}

// soon is how long a thing may take from when it could be done: what was promised, and on a busy machine more, for the processes that have part in it
// take turns there.
func (e *env) soon(promised time.Duration, since time.Time) time.Duration {
	if e.exact {
		return min(promised, e.slack)
	}
	return promised + e.f.trips(10) + min(2*e.slack, 10*machine.since(since))
}
