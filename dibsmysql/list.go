package dibsmysql

import (
	"context"
	"database/sql"

	"github.com/dibs-go/dibs/dibsdriver"
)

// List returns the unexpired leases whose keys begin with prefix, sorted by key, byte by byte.
func (d *Driver) List(ctx context.Context, prefix string) ([]dibsdriver.Record, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.calls.Done()
	if _, err := d.ensure(ctx); err != nil {
		return nil, err
	}
	// A range of the primary key: no character of a key is special then, as it would be to LIKE.
	within := ""
	if prefix != "" {
		within = "AND lock_key >= " + literal(prefix)
		if end := after(prefix); end != "" {
			within += " AND lock_key < " + literal(end)
		}
	}
	var records []dibsdriver.Record
	err := d.each(ctx, "list", d.q.list.with(within), func() { records = nil }, func(rows *sql.Rows) error {
		var key string
		r := row{there: true}
		if err := rows.Scan(&key, &r.token, &r.left, &r.since, &r.open, &r.holder, &r.note); err != nil {
			return err
		}
		record := r.record(key)
		record.Ending = !r.open
		records = append(records, record)
		return nil
	})
	return records, err
}

// after is the first string behind all that begin with prefix; empty if there is none.
func after(prefix string) string {
	end := []byte(prefix)
	for len(end) > 0 {
		if last := &end[len(end)-1]; *last < 0xff {
			*last++
			return string(end)
		}
		end = end[:len(end)-1]
	}
	return ""
}
