package dibsmysql

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// Acquire takes the key if it is free or its lease has expired: one statement, one round trip. Who has a busy key costs a second one, to read the
// row; asked again within a second, a busy key costs that reading alone.
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
		return none, dibsdriver.NotApplied(refused("dibs: %s: a lease needs an owner and a TTL above 0, not %v", d.name(), p.TTL))
	}
	if p.Floor > dibsdriver.MaxToken-dibsdriver.TokenStep {
		return none, dibsdriver.NotApplied(d.tooHigh(p.Key, p.Floor+dibsdriver.TokenStep))
	}
	d.asked(p.TTL)
	server, err := d.ensure(ctx)
	if err != nil {
		return none, err
	}
	d.startSweeping()
	if err := d.reserveKeeper(ctx); err != nil {
		return none, err
	}
	if d.batons.barred(p) {
		return dibsdriver.AcquireResult{Contended: true}, nil
	}
	if !d.batons.wake(p.Key) && d.busy.recently(p.Key) {
		r, err := d.look(ctx, "acquire", p.Key)
		if err != nil {
			return none, err
		}
		if r.held() && r.owner.String != p.Owner {
			d.busy.note(p.Key)
			return dibsdriver.AcquireResult{Holder: r.record(p.Key)}, nil
		}
	}
	r, err := d.acquire(ctx, server, p)
	if r.Acquired {
		d.acquired(server, p)
	}
	return r, err
}

func (d *Driver) acquire(ctx context.Context, server *server, p dibsdriver.AcquireParams) (r dibsdriver.AcquireResult, err error) {
	owner := literal(p.Owner)
	statement := d.q.acquire.with(literal(p.Key), owner, number(micros(p.TTL)),
		number(max(p.Floor, server.floor)+dibsdriver.TokenStep), text(p.Holder), text(p.Note))
	// How long it may wait for a row that a stranger has locked is up to the server: MySQL cannot set that for one statement, and on MariaDB SET STATEMENT
	// costs 8 % of all this. Who gives up waiting ends the statement (see ghosts); where nobody is left to do so, it leaves a lease that began when
	// the statement did.
	// Between the answer "busy" and the look at the row, the key may have become free.
	for tries := 1; ; tries++ {
		began := time.Now()
		id, _, err := d.exec(ctx, "acquire", owner, statement)
		switch {
		case err != nil:
			return r, err
		case id > dibsdriver.MaxToken:
			err := d.giveBack(ctx, p)
			return r, dibsdriver.WithFate(d.tooHigh(p.Key, id), dibsdriver.FateOf(orSettled(err)))
		case id > 0:
			if time.Since(began) > overtaken {
				if fine, err := d.aboveFloor(ctx, p, id); err != nil {
					return r, err
				} else if !fine {
					continue
				}
			}
			d.busy.forget(p.Key)
			return dibsdriver.AcquireResult{Acquired: true, Token: id}, nil
		}
		row, err := d.look(ctx, "acquire", p.Key)
		if err != nil {
			if id == 0 { // it may be ours
				err = dibsdriver.Settled(err)
			}
			return r, err
		}
		if id == 0 && row.owner.String == p.Owner && row.open {
			return dibsdriver.AcquireResult{Acquired: true, Token: row.token}, nil // a trigger has taken the place of the answer
		}
		if row.held() || row.there && tries == attempts {
			d.busy.note(p.Key)
			return dibsdriver.AcquireResult{Holder: row.record(p.Key)}, nil
		}
		if tries == 2*attempts {
			return r, dibsdriver.Settled(named(fmt.Errorf("dibs: %s: the row of key %q appears and disappears", d.name(), p.Key),
				dibsdriver.ErrUnavailable))
		}
	}
}

func (d *Driver) tooHigh(key string, token int64) error {
	return refused("dibs: %s: the next fencing token of key %q would be %d, above the largest, %d: the server's clock is far ahead, or was; "+
		"set it right and delete the key's row", d.name(), key, token, int64(dibsdriver.MaxToken))
}

// giveBack releases what was taken a moment ago.
func (d *Driver) giveBack(ctx context.Context, p dibsdriver.AcquireParams) error {
	owner := literal(p.Owner)
	_, _, err := d.exec(ctx, "give back", owner, d.q.release.with(literal(p.Key), owner, number(nobodyWaits)))
	return err
}

// orSettled is the fate of a request that was followed by another: known if that one's is.
func orSettled(err error) error {
	if err == nil {
		return dibsdriver.Settled(errSettled)
	}
	return err
}
