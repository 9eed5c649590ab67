package dibsmysql

import (
	"context"
	"fmt"

	"github.com/dibs-go/dibs/dibsdriver"
)

// Break ends somebody else's lease, or lets it run out.
func (d *Driver) Break(ctx context.Context, p dibsdriver.BreakParams) (dibsdriver.Record, error) {
	var none dibsdriver.Record
	if err := d.enter(ctx); err != nil {
		return none, err
	}
	defer d.calls.Done()
	if _, err := d.ensure(ctx); err != nil {
		return none, err
	}
	for {
		row, err := d.look(ctx, "break", p.Key)
		switch {
		case err != nil:
			return none, err
		case !row.held():
			return none, dibsdriver.NotApplied(named(fmt.Errorf("dibs: %s: key %q is not held by anybody", d.name(), p.Key), dibsdriver.ErrNotHeld))
		case p.Token < row.token || p.Token >= row.token+dibsdriver.TokenStep:
			return row.record(p.Key), dibsdriver.NotApplied(named(fmt.Errorf("dibs: %s: key %q is held with token %d, not %d",
				d.name(), p.Key, row.token, p.Token), dibsdriver.ErrTokenMismatch))
		case !row.open && !p.Now: // it was broken before
			return row.record(p.Key), nil
		}
		statement := d.q.breakLater
		if p.Now {
			statement = d.q.breakNow
		}
		owner, mark := literal(row.owner.String), newMark()
		id, changed, err := d.exec(ctx, "break", mark, statement.with(literal(p.Key), owner, number(row.token), mark))
		switch {
		case err != nil:
			return none, err
		case id != 0 || changed:
			return row.record(p.Key), nil
		}
		// It has changed between the look and the change: look again.
	}
}
