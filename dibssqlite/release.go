package dibssqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/dibs-go/dibs/dibsdriver"
)

// Release ends the owner's lease, also one that has expired but was taken by nobody since. With Keep the key stays taken for
// that much longer.
func (d *Driver) Release(ctx context.Context, p dibsdriver.ReleaseParams) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.calls.Done()
	if err := d.ensure(ctx); err != nil {
		return dibsdriver.NotApplied(d.fail("open", err))
	}
	release := func(s *session) error {
		var one int
		return s.row(d.q.release, []byte(p.Key), p.Owner, millis(max(p.Keep, 0))).Scan(&one)
	}
	var err error
	if d.oneStatement() {
		err = d.writeOne(ctx, "release", release)
	} else {
		err = d.write(ctx, "release", d.writer, release)
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return dibsdriver.NotApplied(named(fmt.Errorf("dibs: %s: key %q: the lease to release is not there any more", d.name(), p.Key),
			dibsdriver.ErrLost))
	}
	return err
}
