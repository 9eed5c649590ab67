package dibsmysql

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/dibs-go/dibs"
)

// Processes take turns at sweeping by a row of dibs_meta, named sweep. Above 0 it says until when a process is at it, in microseconds since 1970: a lease, and
// its end is its owner. Below 0 it says when the last one was done. So it needs no right that dibs does not have, no connection that stays open and no
// row lock that outlives a statement; it works where named locks do not (behind proxies, on clusters); and a process that dies, or is frozen,
// holds the others up for sweepTurnTTL. Nothing worse than work done twice would come of two that sweep at once.

// sweepTurnTTL is how long a turn lasts, if it is not kept.
const sweepTurnTTL = 30 * time.Second

// sweepDue tells whether nobody is sweeping, and nobody has within the time.
func (d *Driver) sweepDue(ctx context.Context, every time.Duration) (bool, error) {
	value, now, there, err := d.sweepState(ctx)
	switch {
	case err != nil:
		return false, err
	case !there:
		return true, nil
	case value > 0:
		return value <= now || value > now+micros(sweepTurnTTL), nil
	}
	since := now + value // below 0: the clock was set back
	return since < 0 || since >= micros(every), nil
}

func (d *Driver) sweepState(ctx context.Context) (value, now int64, there bool, err error) {
	err = d.sweepRead(ctx, d.sweeps.when.with(), func(rows *sql.Rows) error {
		there = true
		return rows.Scan(&value, &now)
	})
	return value, now, there, err
}

// sweepTurn is a process's turn.
type sweepTurn struct {
	d     *Driver
	until int64     // by the server's clock
	kept  time.Time // when it was last taken or kept
}

// take takes the turn, or is dibs.ErrBusy.
func (t *sweepTurn) take(ctx context.Context) error {
	_, _, there, err := t.d.sweepState(ctx)
	if err == nil && !there {
		_, _, err = t.d.sweepWrite(ctx, t.d.sweeps.row.with())
	}
	if err != nil {
		return err
	}
	return t.set(ctx, t.d.sweeps.turn.with(number(micros(sweepTurnTTL))), "is removing old rows at the moment")
}

// keep keeps the turn, when it is time to.
func (t *sweepTurn) keep(ctx context.Context) error {
	if time.Since(t.kept) < sweepTurnTTL/6 {
		return nil
	}
	return t.set(ctx, t.d.sweeps.on.with(number(micros(sweepTurnTTL)), number(t.until)), "has taken over removing old rows")
}

func (t *sweepTurn) set(ctx context.Context, statement, others string) error {
	now := time.Now()
	id, _, err := t.d.sweepWrite(ctx, statement)
	switch {
	case err != nil:
		return err
	case id == 0:
		return named(fmt.Errorf("dibs: %s: another process %s", t.d.name(), others), dibs.ErrBusy)
	}
	t.until, t.kept = id, now
	return nil
}

// end gives the turn up, also where ctx has ended. If that fails, the turn lapses.
func (t *sweepTurn) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	_, _, _ = t.d.sweepWrite(ctx, t.d.sweeps.end.with(number(t.until)))
}
