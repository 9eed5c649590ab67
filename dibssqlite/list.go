package dibssqlite

import (
	"context"
	"strings"

	"github.com/dibs-go/dibs/dibsdriver"
)

// List returns the unexpired leases whose keys begin with prefix, sorted by key, byte by byte. With [Open] the right to read the file and its folder is enough.
func (d *Driver) List(ctx context.Context, prefix string) ([]dibsdriver.Record, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.calls.Done()
	if err := d.ensure(ctx); err != nil {
		if d.own && notWritable(err) {
			if records, ok := d.listUnchanged(ctx, prefix); ok {
				return records, nil
			}
		}
		return nil, dibsdriver.NotApplied(d.fail("open", err))
	}
	var records []dibsdriver.Record
	err := d.read(ctx, "list", func(s *session) (err error) {
		s.ctx = ctx // may be long
		records, err = d.list(s, prefix)
		return err
	})
	return records, err
}

// listQuery selects by a range of the primary key: no character of a key is special then, as it would be to LIKE.
func (d *Driver) listQuery(prefix string) (string, []any) {
	end := after(prefix)
	switch {
	case prefix == "":
		return strings.Replace(d.q.list, "$RANGE", "", 1), nil
	case end == nil:
		return strings.Replace(d.q.list, "$RANGE", "AND l.lock_key >= ?1", 1), []any{[]byte(prefix)}
	}
	return strings.Replace(d.q.list, "$RANGE", "AND l.lock_key >= ?1 AND l.lock_key < ?2", 1), []any{[]byte(prefix), end}
}

// after is the first byte string behind all that begin with prefix; nil if there is none.
func after(prefix string) []byte {
	end := []byte(prefix)
	for len(end) > 0 {
		if last := &end[len(end)-1]; *last < 0xff {
			*last++
			return end
		}
		end = end[:len(end)-1]
	}
	return nil
}
