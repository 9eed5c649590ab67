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
	s, err := d.ensure(ctx)
	if err != nil {
		return err
	}
	key, owner := literal(p.Key), literal(p.Owner)
	statement := d.q.release.with(key, owner, d.whetherOthers(s, p.Key))
	if p.Keep > 0 {
		statement = d.q.keep.with(key, owner, number(micros(p.Keep)))
	}
	// The next in line takes longer to wake up than the row to become free.
	passed := d.passing(ctx, s, p)
	id, changed, err := d.exec(ctx, "release", owner, statement)
	passed(id == othersWait)
	switch {
	case err != nil:
		return err
	case id == 0 && !changed:
		return dibsdriver.NotApplied(named(fmt.Errorf("dibs: %s: key %q: the lease to release is not there any more", d.name(), p.Key),
			dibsdriver.ErrLost))
	}
	return nil
}

const (
	nobodyWaits = 1
	othersWait  = 2
)

// whetherOthers is what a release tells of the baton.
func (d *Driver) whetherOthers(s *server, key string) string {
	if d.batons.refused.Load() || s.statements {
		return number(nobodyWaits)
	}
	return fmt.Sprintf("IF(%s = 0, %d, %d)", nobodyElse(d.batonName(s, key)), othersWait, nobodyWaits)
}
