package dibsmem

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// held reports whether the row has an unexpired lease.
func (r *row) held(now time.Time) bool { return r != nil && r.owner != "" && now.Before(r.ends) }

func (r *row) record(key string, now time.Time) dibsdriver.Record {
	return dibsdriver.Record{
		Key: key, Holder: r.holder, Note: r.note, Token: r.token, Since: r.since.UTC(), ExpiresIn: r.ends.Sub(now),
	}
}

// Acquire implements [dibsdriver.Driver].
func (s *Store) Acquire(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
	if err := s.enter(ctx); err != nil {
		return dibsdriver.AcquireResult{}, err
	}
	defer s.mu.Unlock()
	now := s.now()
	s.sweep(now)
	r := s.keys[p.Key]
	if r == nil {
		r = &row{token: s.floor}
		s.keys[p.Key] = r
	}
	if r.held(now) {
		if r.owner == p.Owner { // the request came twice
			return dibsdriver.AcquireResult{Acquired: true, Token: r.token}, nil
		}
		r.queue(p.Waiter, now)
		return dibsdriver.AcquireResult{Holder: r.record(p.Key, now), Contended: len(r.line) > 0}, nil
	}
	if p.Waiter != "" && !r.first(p.Waiter, now) {
		return dibsdriver.AcquireResult{Contended: true}, nil
	}
	token := max(r.token+dibsdriver.TokenStep, now.UnixMicro(), p.Floor+dibsdriver.TokenStep)
	if token > dibsdriver.MaxToken {
		return dibsdriver.AcquireResult{}, dibsdriver.NotApplied(
			fmt.Errorf("%w: memory: the fencing tokens of %q are used up", dibsdriver.ErrRefused, p.Key))
	}
	r.leave(p.Waiter)
	r.token, r.owner, r.open = token, p.Owner, true
	r.holder, r.note = p.Holder, p.Note
	r.since, r.ends = now, now.Add(p.TTL)
	return dibsdriver.AcquireResult{Acquired: true, Token: token, Contended: len(r.line) > 0}, nil
}

// Renew implements [dibsdriver.Driver].
func (s *Store) Renew(ctx context.Context, leases []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := s.now()
	answers := make([]dibsdriver.RenewAnswer, len(leases))
	for i, l := range leases {
		answers[i] = dibsdriver.Lost
		if r := s.keys[l.Key]; r.held(now) && r.owner == l.Owner && r.open {
			answers[i] = dibsdriver.Renewed
			if ends := now.Add(l.TTL); ends.After(r.ends) {
				r.ends = ends
			}
		}
	}
	return answers, nil
}

// Release implements [dibsdriver.Driver].
func (s *Store) Release(ctx context.Context, p dibsdriver.ReleaseParams) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	now := s.now()
	r := s.keys[p.Key]
	if !r.held(now) || r.owner != p.Owner {
		return dibsdriver.ErrLost
	}
	if p.Keep > 0 {
		// A request that comes late, after another like it was done, makes nothing longer.
		if ends := now.Add(p.Keep); r.open || ends.Before(r.ends) {
			r.ends = ends
		}
		r.open = false
	} else {
		r.owner, r.ends = "", now
	}
	s.change()
	return nil
}

// Break implements [dibsdriver.Driver].
func (s *Store) Break(ctx context.Context, p dibsdriver.BreakParams) (dibsdriver.Record, error) {
	if err := s.enter(ctx); err != nil {
		return dibsdriver.Record{}, err
	}
	defer s.mu.Unlock()
	now := s.now()
	r := s.keys[p.Key]
	if !r.held(now) {
		return dibsdriver.Record{}, dibsdriver.ErrNotHeld
	}
	record := r.record(p.Key, now)
	if p.Token < r.token || p.Token >= r.token+dibsdriver.TokenStep {
		return record, dibsdriver.ErrTokenMismatch
	}
	r.open = false
	if p.Now {
		r.owner, r.ends = "", now
		s.change()
	}
	return record, nil
}

// List implements [dibsdriver.Driver].
func (s *Store) List(ctx context.Context, prefix string) ([]dibsdriver.Record, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := s.now()
	var records []dibsdriver.Record
	for key, r := range s.keys {
		if r.held(now) && strings.HasPrefix(key, prefix) {
			record := r.record(key, now)
			record.Ending = !r.open
			records = append(records, record)
		}
	}
	sort.Slice(records, func(i, j int) bool { return records[i].Key < records[j].Key })
	return records, nil
}

// sweep removes the rows of keys that have long been free. What their tokens were is kept in one number for all.
func (s *Store) sweep(now time.Time) {
	if now.Sub(s.swept) < retention && !now.Before(s.swept) {
		return
	}
	s.swept = now
	for key, r := range s.keys {
		if now.Sub(r.ends) > retention && len(r.alive(now)) == 0 {
			s.floor = max(s.floor, r.token)
			delete(s.keys, key)
		}
	}
}
