package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// namedLock is a lock of the server's own (GET_LOCK), which lives as long as the connection. Each holder and each waiter has one.
type namedLock struct{ db *sql.DB }

func openGetLock(s store, workers int) (contender, error) {
	db, err := s.peersPool(workers)
	return namedLock{db}, err
}

func (n namedLock) lock(ctx context.Context, key string) (int64, func() error, error) {
	conn, err := n.db.Conn(ctx)
	if err != nil {
		return 0, nil, err
	}
	background := context.Background() // as for the row
	for {
		if err = ctx.Err(); err != nil {
			break
		}
		var got sql.NullInt64
		if err = conn.QueryRowContext(background, "SELECT GET_LOCK('"+key+"', 5)").Scan(&got); err != nil {
			break
		}
		if got.Int64 == 1 {
			return 0, func() error {
				err := conn.QueryRowContext(background, "SELECT RELEASE_LOCK('"+key+"')").Scan(&got)
				if err == nil && got.Int64 != 1 {
					err = fmt.Errorf("bench: the named lock %s was not ours any more", key)
				}
				return errors.Join(err, conn.Close())
			}, nil
		}
	}
	return 0, nil, errors.Join(err, conn.Close())
}

func (n namedLock) close() error { return n.db.Close() }
