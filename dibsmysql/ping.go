package dibsmysql

import (
	"context"
	"database/sql"
	"fmt"
)

// rights try each right that the driver needs, without changing or locking a row: no key is empty.
var rights = []string{
	"INSERT INTO %[1]sleases (lock_key, fence, expires, since, is_open) SELECT lock_key, fence, expires, since, is_open FROM %[1]sleases WHERE lock_key = X''",
	"UPDATE %[1]sleases SET fence = fence WHERE lock_key = X''",
	"DELETE FROM %[1]sleases WHERE lock_key = X''",
	"UPDATE %[1]smeta SET value = value WHERE name = ''",
}

// Ping checks the server, the tables and their version, and the user's rights. It changes nothing and locks no row.
func (d *Driver) Ping(ctx context.Context) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.calls.Done()
	s, err := d.check(ctx)
	if err != nil {
		return err
	}
	d.server.Store(s)
	for _, right := range rights {
		err := d.send(ctx, request{doing: "ping", take: d.take, reads: true}, func(conn *sql.Conn) error {
			_, err := conn.ExecContext(ctx, fmt.Sprintf(right, d.prefix))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
