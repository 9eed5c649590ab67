package dibsdrivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/dibs-go/dibs"
)

// section is one critical section of a worker, or one acquisition that failed.
type section struct {
	ID      int64
	Process int
	Key     string
	Token   int64
	TTL     time.Duration
	MinHold time.Duration

	// Called and Got are when the acquisition was asked for and had.
	Called, Got mono
	// Trusted is the last instant at which the worker asked its lock and was told that all is well. The instant is read before the
	// lock is asked, so that a process that is frozen in between does not seem to have trusted it later than it did.
	Trusted mono
	// Told is when the work's context ended, if that was before the release.
	Told mono
	// Freed is when the release was confirmed.
	Freed mono
	// Outcome is "" as long as the section goes on, or for ever if its process died in it.
	Outcome string
}

const (
	released = "released"
	lost     = "lost"
	tooLong  = "max hold"
	unsure   = "release uncertain"
	failed   = "not acquired: "
)

// write is a write to the resource that the locks protect, which knows fencing tokens.
type write struct {
	Key          string
	Token        int64
	Called, Done mono
	Accepted     bool
}

// worker takes random keys for random times until its context ends. The same code works in a helper process and in a bubble.
type worker struct {
	process int
	keys    []string
	rng     *rand.Rand
	locker  *dibs.Locker
	now     func() mono
	ids     *atomic.Int64
	beat    time.Duration // how often a section that goes on is told of
	tell    func(section)
	write   func(key string, token int64) error
}

func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		w.turn(ctx)
	}
}

// between is a random time.
func (w *worker) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.rng.Int64N(int64(high-low)))
}

func (w *worker) chance(percent int) bool { return w.rng.IntN(100) < percent }

func (w *worker) turn(ctx context.Context) {
	s := section{
		ID: w.ids.Add(1), Process: w.process, Key: w.keys[w.rng.IntN(len(w.keys))], TTL: w.between(600*time.Millisecond, time.Second),
	}
	work := w.between(5*time.Millisecond, 60*time.Millisecond)
	if w.chance(20) {
		work = w.between(300*time.Millisecond, 1500*time.Millisecond) // needs renewals
	}
	opts := []dibs.Option{dibs.TTL(s.TTL), dibs.MaxWait(w.between(0, 4*time.Second))}
	if w.chance(20) {
		opts = append(opts, dibs.MaxWait(0))
	}
	if w.chance(10) {
		s.MinHold = w.between(10*time.Millisecond, 200*time.Millisecond)
		opts = append(opts, dibs.MinHold(s.MinHold))
	}
	if w.chance(10) {
		opts = append(opts, dibs.MaxHold(w.between(200*time.Millisecond, 800*time.Millisecond)))
	}
	s.Called = w.now()
	lock, workCtx, err := w.locker.Acquire(ctx, s.Key, opts...)
	s.Got = w.now()
	if err != nil {
		s.Outcome = failed + kindOf(err)
		w.tell(s)
		pause := 20 * time.Millisecond
		if errors.Is(err, dibs.ErrUnavailable) { // for a while, and the machine has better things to do
			pause = 200 * time.Millisecond
		}
		time.Sleep(w.between(time.Millisecond, pause))
		return
	}
	s.Token, s.Trusted = lock.Token(), s.Called // until it was asked for the first time
	w.tell(s)
	var told atomic.Int64
	stop := context.AfterFunc(workCtx, func() { told.Store(int64(w.now())) })
	w.work(ctx, &s, lock, work)
	stop()
	s.Told = mono(told.Load())
	err = lock.Release()
	s.Freed = w.now()
	switch {
	case err == nil:
		s.Outcome = released
	case errors.Is(err, dibs.ErrMaxHold):
		s.Outcome = tooLong
	case errors.Is(err, dibs.ErrLost):
		s.Outcome = lost
	case errors.Is(err, dibs.ErrUnavailable):
		s.Outcome = unsure
	default:
		s.Outcome = fmt.Sprintf("unknown error: %v", err)
	}
	w.tell(s)
	time.Sleep(w.between(0, 5*time.Millisecond))
}

// work is a critical section: it asks its lock again and again, and writes to the resource.
func (w *worker) work(ctx context.Context, s *section, lock *dibs.Lock, d time.Duration) {
	end, beat := s.Got+mono(d), s.Got
	for ctx.Err() == nil {
		t := w.now()
		err := lock.Err()
		if err == nil {
			s.Trusted = t
		} else if !errors.Is(err, dibs.ErrUnavailable) {
			if w.chance(50) { // it goes on for a moment, as real work does; the fence has to hold it off
				time.Sleep(w.between(0, 400*time.Millisecond))
				_ = w.write(s.Key, s.Token)
			}
			return
		}
		if t >= end {
			return
		}
		if t.sub(beat) >= w.beat {
			beat = t
			w.tell(*s)
		}
		if w.chance(20) {
			_ = w.write(s.Key, s.Token)
		}
		time.Sleep(w.between(time.Millisecond, 8*time.Millisecond))
	}
}

func kindOf(err error) string {
	for _, name := range []string{"busy", "unavailable", "closed", "canceled"} {
		if errors.Is(err, kinds[name]) {
			return name
		}
	}
	return err.Error()
}
