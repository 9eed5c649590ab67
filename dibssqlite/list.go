package dibssqlite

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// List returns the unexpired leases whose keys begin with prefix, sorted by key, byte by byte.
func (d *Driver) List(ctx context.Context, prefix string) ([]dibsdriver.Record, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.calls.Done()
	if err := d.ensure(ctx); err != nil {
		return nil, dibsdriver.NotApplied(d.fail("open", err))
	}
	query, args := d.listQuery(prefix)
	var records []dibsdriver.Record
	err := d.read(ctx, "list", func(s *session) error {
		records = nil
		s.ctx = ctx // may be long
		return s.each(func(rows *sql.Rows) error {
			var key sql.RawBytes
			var left, since int64
			var r dibsdriver.Record
			if err := rows.Scan(&key, &r.Token, &left, &since, &r.Holder, &r.Note); err != nil {
				return err
			}
			r.Key, r.ExpiresIn, r.Since = string(key), time.Duration(left)*time.Millisecond, time.UnixMilli(since).UTC()
			records = append(records, r)
			return nil
		}, query, args...)
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
