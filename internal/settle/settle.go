// Package settle makes the store agree with what the process believes: it releases leases, and takes back acquisitions whose
// answer was lost. What cannot be done at once goes on in the background, on no caller's context.
package settle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/backoff"
	"github.com/dibs-go/dibs/internal/call"
)

// Settler releases and takes back.
type Settler struct {
	Driver dibsdriver.Driver
	Group  *call.Group
	// Timeout is the limit of one request.
	Timeout time.Duration
	// Session tells that nothing lapses by itself at this store as long as the process lives.
	Session bool
}

const (
	// A take-back has to be quick: until it is done, the leftover keeps everybody out.
	retryMin = 10 * time.Millisecond
	retryMax = 250 * time.Millisecond
)

// Release is a lease to be given back.
type Release struct {
	Key, Owner string
	// KeepUntil is the end of the min hold; the zero time if there is none left.
	KeepUntil time.Time
	// Life bounds how long the lease can still stand in the store: after it, retrying is pointless.
	Life time.Duration
}

func (s *Settler) release(ctx context.Context, r Release) error {
	keep := max(0, time.Until(r.KeepUntil))
	if r.KeepUntil.IsZero() {
		keep = 0
	}
	return s.Driver.Release(ctx, dibsdriver.ReleaseParams{Key: r.Key, Owner: r.Owner, Keep: keep})
}

func (s *Settler) start(r Release, limit time.Duration) *call.Call[struct{}] {
	return call.Start(s.Group, limit, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.release(ctx, r)
	})
}

// Release asks the store once and returns its answer: nil, or ErrLost. Without an answer it returns ErrUnavailable, at the time-out's end if that
// began at start, and goes on in the background until the lease has lapsed by itself.
func (s *Settler) Release(r Release, start time.Time) error {
	limit := s.Timeout - time.Since(start)
	_, err, answered := s.start(r, limit).Wait(limit)
	if !answered {
		err = fmt.Errorf("%w: no answer within %s", dibsdriver.ErrUnavailable, s.Timeout)
	}
	if answered && (err == nil || errors.Is(err, dibsdriver.ErrLost)) {
		return err
	}
	if !errors.Is(err, dibsdriver.ErrUnavailable) {
		err = fmt.Errorf("%w: %w", dibsdriver.ErrUnavailable, err)
	}
	s.Group.Go(func(ctx context.Context) { s.retryRelease(ctx, r) })
	return err
}

// InBackground releases without waiting for an answer.
func (s *Settler) InBackground(r Release) {
	s.Group.Go(func(ctx context.Context) { s.retryRelease(ctx, r) })
}

func (s *Settler) retryRelease(ctx context.Context, r Release) {
	end := time.Now().Add(r.Life)
	var pause backoff.Backoff
	for s.Session || time.Now().Before(end) {
		_, err, answered := s.start(r, s.Timeout).Wait(s.Timeout)
		if answered && (err == nil || errors.Is(err, dibsdriver.ErrLost)) {
			return // a lease that is not there any more is what we want, whoever removed it
		}
		if !sleep(ctx, pause.Next(retryMin, retryMax)) {
			return
		}
	}
}

// TakeBack undoes an acquisition whose answer did not come in time, or came as an error that leaves its fate open. The request may
// still be on its way, so that finding nothing proves nothing until its answer is known or the lease, had it been taken at
// the last moment, would have lapsed.
func (s *Settler) TakeBack(key, owner string, ttl time.Duration, c *call.Call[dibsdriver.AcquireResult]) {
	s.Group.Go(func(ctx context.Context) {
		r := Release{Key: key, Owner: owner}
		end := c.Started.Add(s.Timeout + ttl)
		answer := c.Done()
		underWay := true
		var pause backoff.Backoff
		for {
			select {
			case <-answer:
				answer = nil
				res, err := c.Result()
				fate := dibsdriver.FateOf(err)
				if err == nil && !res.Acquired || err != nil && fate == dibsdriver.FateNotApplied {
					return
				}
				underWay = err != nil && fate == dibsdriver.FateUnknown
			default:
			}
			_, err, answered := s.start(r, s.Timeout).Wait(s.Timeout)
			gone := answered && errors.Is(err, dibsdriver.ErrLost)
			switch late := time.Now().After(end); {
			case answered && err == nil:
				return
			case gone && (!underWay || late):
				return
			case late && !s.Session:
				return
			}
			t := time.NewTimer(pause.Next(retryMin, retryMax))
			select {
			case <-answer:
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				return
			}
			t.Stop()
		}
	})
}

// sleep returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
