package dibssqlite

import (
	"context"
	"fmt"

	"github.com/dibs-go/dibs/dibsdriver"
)

// Break ends somebody else's lease, or lets it run out.
func (d *Driver) Break(ctx context.Context, p dibsdriver.BreakParams) (dibsdriver.Record, error) {
	var was dibsdriver.Record
	if err := d.enter(ctx); err != nil {
		return was, err
	}
	defer d.calls.Done()
	if err := d.ensure(ctx); err != nil {
		return was, dibsdriver.NotApplied(d.fail("open", err))
	}
	var answer error
	err := d.write(ctx, "break", d.writer, func(s *session) error {
		k, err := d.look(s, p.Key, "")
		if err != nil {
			return err
		}
		was, answer = k.record(p.Key), nil
		switch {
		case !k.held():
			answer = named(fmt.Errorf("dibs: %s: key %q is not held by anybody", d.name(), p.Key), dibsdriver.ErrNotHeld)
			return errNoChange
		case p.Token < k.token || p.Token >= k.token+dibsdriver.TokenStep:
			answer = named(fmt.Errorf("dibs: %s: key %q is held with token %d, not %d", d.name(), p.Key, k.token, p.Token),
				dibsdriver.ErrTokenMismatch)
			return errNoChange
		case p.Now:
			return s.exec(d.q.breakNow, []byte(p.Key), k.now)
		}
		return s.exec(d.q.breakLater, []byte(p.Key))
	})
	if err != nil {
		return dibsdriver.Record{}, err
	}
	return was, dibsdriver.NotApplied(answer)
}
