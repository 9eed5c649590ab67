package dibssqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/dibs-go/dibs/dibsdriver"
)

// Acquire takes the key if it is free or its lease has expired. A busy answer to a waiter that has its place writes nothing and takes no lock.
func (d *Driver) Acquire(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
	var none dibsdriver.AcquireResult
	if err := d.enter(ctx); err != nil {
		return none, err
	}
	defer d.calls.Done()
	if err := d.checkKey(p.Key); err != nil {
		return none, err
	}
	if p.TTL <= 0 || p.Owner == "" {
		return none, dibsdriver.NotApplied(named(fmt.Errorf("dibs: %s: a lease needs an owner and a TTL above 0, not %v",
			d.name(), p.TTL), dibsdriver.ErrRefused))
	}
	if err := d.ensure(ctx); err != nil {
		return none, dibsdriver.NotApplied(d.fail("open", err))
	}
	if err := d.reserveKeeper(ctx); err != nil {
		return none, err
	}

	r, err := d.takeKey(ctx, p)
	if err != nil {
		return dibsdriver.AcquireResult{}, err
	}
	d.asked.note(p, r)
	return r, nil
}

// takeKey tries the cheap ways first.
func (d *Driver) takeKey(ctx context.Context, p dibsdriver.AcquireParams) (r dibsdriver.AcquireResult, err error) {
	// Nobody there, as most often: one statement takes it. Not if the key was busy just now.
	if d.oneStatement() && !d.asked.before(p) && p.Floor <= dibsdriver.MaxToken-dibsdriver.TokenStep {
		err := d.writeOne(ctx, "acquire", func(s *session) error {
			return s.row(d.q.takeFree, []byte(p.Key), p.Floor+dibsdriver.TokenStep, p.Owner, millis(p.TTL), p.Holder, p.Note,
				int64(dibsdriver.MaxToken)).Scan(&r.Token)
		})
		if !errors.Is(err, sql.ErrNoRows) {
			r.Acquired = err == nil
			return r, err
		}
	}
	// Held by another, and our place is kept: reading is enough.
	busy := false
	err = d.read(ctx, "acquire", func(s *session) error {
		k, err := d.look(s, p.Key, p.Waiter)
		if err != nil {
			return err
		}
		busy = k.held() && k.owner != p.Owner && (p.Waiter == "" || k.fresh())
		r = dibsdriver.AcquireResult{Holder: k.record(p.Key)}
		return nil
	})
	if err != nil || busy {
		return r, err
	}
	err = d.write(ctx, "acquire", d.writer, func(s *session) (err error) {
		r, err = d.acquire(s, p)
		return err
	})
	return r, err
}

// acquire decides under the file's write lock: nothing changes between what it reads and what it writes.
func (d *Driver) acquire(s *session, p dibsdriver.AcquireParams) (r dibsdriver.AcquireResult, err error) {
	k, err := d.look(s, p.Key, p.Waiter)
	if err != nil {
		return r, err
	}
	var line line
	if k.queued {
		if line, err = d.line(s, p.Key, p.Waiter, k.now); err != nil {
			return r, err
		}
	}
	expires := k.now + millis(p.TTL)
	switch {
	case k.held() && k.owner == p.Owner && k.open:
		// It is there already.
		return dibsdriver.AcquireResult{Acquired: true, Token: k.token, Contended: line.others > 0},
			s.exec(d.q.extend, []byte(p.Key), expires)
	case k.held(), p.Waiter != "" && line.othersFirst():
		r.Holder = k.record(p.Key)
		return r, d.keepPlace(s, p, &k, &line)
	}

	token := max(k.token+dibsdriver.TokenStep, k.floor+dibsdriver.TokenStep, k.now*1000, p.Floor+dibsdriver.TokenStep)
	if token > dibsdriver.MaxToken {
		return r, named(fmt.Errorf("dibs: %s: the next fencing token of key %q would be %d, above the largest, %d: this machine's clock is far "+
			"ahead, or was; set it right and delete the key's row", d.name(), p.Key, token, int64(dibsdriver.MaxToken)), dibsdriver.ErrRefused)
	}
	if err := s.exec(d.q.take, []byte(p.Key), token, p.Owner, expires, k.now, p.Holder, p.Note); err != nil {
		return r, err
	}
	if k.seen != 0 {
		if err := s.exec(d.q.leave, []byte(p.Key), p.Waiter); err != nil {
			return r, err
		}
	}
	return dibsdriver.AcquireResult{Acquired: true, Token: token, Contended: line.others > 0}, d.dropDead(s, p.Key, &k, &line)
}
