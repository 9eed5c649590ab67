package dibsmysql

import (
	"context"
	"errors"
	"fmt"

	"github.com/dibs-go/dibs/dibsdriver"
)

var errSettled = errors.New("dibs: settled")

// Release ends the owner's lease, also one that has expired but was taken by nobody since: one statement, one round trip. With Keep the key stays taken
// for that much longer.
func (d *Driver) Release(ctx context.Context, p dibsdriver.ReleaseParams) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.calls.Done()
	key, owner := literal(p.Key), literal(p.Owner)
	statement := d.q.release.with(key, owner)
	if p.Keep > 0 {
		statement = d.q.keep.with(key, owner, number(micros(p.Keep)))
	}
	id, changed, err := d.exec(ctx, "release", owner, statement)
	switch {
	case err != nil:
		return err
	case id == 0 && !changed:
		return dibsdriver.NotApplied(named(fmt.Errorf("dibs: %s: key %q: the lease to release is not there any more", d.name(), p.Key),
			dibsdriver.ErrLost))
	}
	return nil
}
