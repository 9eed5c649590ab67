package dibssqlite

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Rows of keys that nobody holds stay for keepRows, then they are cleaned away, by those who come by: a window of the primary key at a time, at
// the latest every sweepEvery or every sweepAfter acquisitions and releases, so that even keys used once
// (an order, a payment) go as fast as they come.
const (
	keepRows   = 60_000 // ms
	sweepEvery = time.Second
	sweepAfter = 100

	sweepPatience = 5 * time.Millisecond
)

type sweeper struct {
	mu     sync.Mutex
	last   time.Time
	since  int // calls since then
	cursor []byte
}

// sweepIfDue runs on the session and in the turn of a call that has written, so it waits for nothing in this process. It never fails a call, and
// tries for the file's lock only once: what is not done today is done at one of the next calls.
func (t *txn) sweepIfDue() {
	w := &t.d.swept
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since++
	waiters := time.Since(w.last) >= sweepEvery
	if w.since < sweepAfter && !waiters {
		return
	}
	if !t.execSoon("BEGIN IMMEDIATE") {
		t.rollback() // in case it was interrupted after it began
		return
	}
	next, err := t.d.sweep(t.session, w.cursor, waiters)
	if err != nil || !t.execSoon("COMMIT") {
		t.rollback()
	}
	if err == nil || errors.Is(err, errNoChange) {
		w.since, w.last, w.cursor = 0, time.Now(), next
	}
}

// execSoon gives up where the user's connection would wait for a lock, as its busy_timeout says.
func (t *txn) execSoon(query string) bool {
	s := t.session
	if !t.d.own {
		ctx, cancel := context.WithTimeout(t.ctx, sweepPatience)
		defer cancel()
		s.ctx = ctx
		defer func() { s.ctx = t.ctx }()
	}
	return s.exec(query) == nil
}

// sweep cleans one window behind cursor and returns the next cursor, nil at the end.
func (d *Driver) sweep(s *session, cursor []byte, waiters bool) (next []byte, err error) {
	var rows, old int64
	nowMS, err := s.now()
	if err != nil {
		return nil, err
	}
	if waiters {
		if err := s.exec(d.q.sweepWaiters, nowMS-waiterLife+1, nowMS+aheadOfClock); err != nil {
			return nil, err
		}
	}
	if cursor == nil {
		cursor = []byte{0} // no key sorts before it; the key "\x00" itself is never cleaned, which harms nobody
	}
	if err := s.row(d.q.window, cursor, nowMS-keepRows).Scan(&next, &rows, &old); err != nil {
		return nil, err
	}
	if old == 0 {
		if !waiters {
			err = errNoChange
		}
		return next, err
	}
	// A trigger keeps the highest token.
	return next, s.exec(d.q.sweep, cursor, next, nowMS-keepRows)
}
