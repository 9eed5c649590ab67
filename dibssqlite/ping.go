package dibssqlite

import (
	"context"

	"github.com/dibs-go/dibs/dibsdriver"
)

// Ping opens the database, makes missing tables, checks their version, and writes to the file, where it leaves nothing: that alone shows whether it is writable and
// its disk has room.
func (d *Driver) Ping(ctx context.Context) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.calls.Done()
	if err := d.ensure(ctx); err != nil {
		return dibsdriver.NotApplied(d.fail("open", err))
	}
	return d.write(ctx, "write", d.writer, func(s *session) error {
		// Again, even if ensure did: another program may have brought newer tables since.
		if _, err := d.version(s); err != nil {
			return err
		}
		return s.exec(d.q.probe)
	})
}
