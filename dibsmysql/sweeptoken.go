package dibsmysql

import (
	"context"
	"database/sql"

	"github.com/dibs-go/dibs/dibsdriver"
)

// overtaken is how long a statement may take before something may have overtaken it. The token of a new row is the time at which its statement began. If the statement
// then waited in the server, the key may meanwhile have had a row with a higher token, which was removed; but not sooner than minRetention after it
// was taken.
const overtaken = minRetention / 2

// aboveFloor tells whether a token that came late is above those of all rows that were removed. Otherwise the lease is given back; what is asked for next gets a token of
// the time of then.
func (d *Driver) aboveFloor(ctx context.Context, p dibsdriver.AcquireParams, token int64) (bool, error) {
	var floor int64
	err := d.each(ctx, "acquire", d.sweeps.tokens.with(), func() { floor = 0 }, func(rows *sql.Rows) error { return rows.Scan(&floor) })
	if err == nil && token >= floor+dibsdriver.TokenStep {
		return true, nil
	}
	back := d.giveBack(ctx, p)
	if err == nil {
		return false, back
	}
	return false, dibsdriver.WithFate(err, dibsdriver.FateOf(orSettled(back)))
}
