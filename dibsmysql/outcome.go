package dibsmysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/dibs-go/dibs/internal/fencing"
)

// outcome is what became of a commit that ended with err. In doubt it is unknown.
func outcome(err error) fencing.Outcome {
	switch {
	case err == nil:
		return fencing.Committed
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrTxDone), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fencing.NotCommitted // nothing was sent
	}
	switch code(err) {
	case 1213, 1205, 1020, // conflicts; on Galera they show at the commit
		1290, 1792, 1836, // the server takes no writes
		3101: // rolled back by the group
		return fencing.NotCommitted
	}
	// Among them what may come after the commit took effect: killed while it waited for replicas, the server shutting down.
	return fencing.Unknown
}
