package dibsmysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
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
	var id int64
	found := false
	err = d.send(ctx, request{doing: "release", take: d.take, marker: owner}, func(conn *sql.Conn) (err error) {
		id, found, err = releaseOn(ctx, conn, statement)
		return err
	})
	passed(id == othersWait)
	switch {
	case err != nil:
		return err
	case !found:
		return dibsdriver.NotApplied(named(fmt.Errorf("dibs: %s: key %q: the lease to release is not there any more", d.name(), p.Key),
			dibsdriver.ErrLost))
	}
	return nil
}

// releaseOn runs the statement on a session in which it takes effect at once; one that the application has left otherwise is closed, and the next tried.
func releaseOn(ctx context.Context, conn *sql.Conn, statement string) (id int64, found bool, err error) {
	id, changed, err := execute(ctx, conn, statement)
	if err != nil || id != 0 || changed {
		return id, err == nil, err
	}
	var autocommit bool
	if err := conn.QueryRowContext(ctx, "SELECT @@autocommit").Scan(&autocommit); err != nil {
		return 0, false, err
	}
	if !autocommit {
		return 0, false, driver.ErrBadConn
	}
	return 0, false, nil
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
