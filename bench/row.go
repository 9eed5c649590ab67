package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// rowTable has a row for each key there will be.
const rowTable = "CREATE TABLE fixed_lock (id INT NOT NULL, lock_name VARCHAR(128) NOT NULL, updated_time DATETIME DEFAULT NULL, PRIMARY KEY (id)) ENGINE=InnoDB"

// fillRows makes the rows 0 to keys-1.
func fillRows() string {
	var b strings.Builder
	b.WriteString("INSERT INTO fixed_lock (id, lock_name) VALUES ")
	for i := range keys {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "(%d,'lock %d')", i, i)
	}
	return b.String()
}

// rowLock holds a transaction that has the row of the key locked. SQLite has no row locks: there it is a transaction that has begun to write,
// which excludes all others of that file, whatever their key.
type rowLock struct {
	db                 *sql.DB
	begin, take, leave string
}

func openRow(s store, workers int) (contender, error) {
	db, err := s.peersPool(workers)
	if s.Name == "sqlite" {
		return &rowLock{db: db, begin: "BEGIN IMMEDIATE", leave: "COMMIT"}, err
	}
	return &rowLock{db: db, begin: "BEGIN", take: "SELECT id FROM fixed_lock WHERE id = %s FOR UPDATE", leave: "COMMIT"}, err
}

func (r *rowLock) lock(ctx context.Context, key string) (int64, func() error, error) {
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return 0, nil, err
	}
	// Not ctx: the client would leave its statement behind in the server's queue. All leave soon when the time is up.
	for background := context.Background(); ; {
		if err = ctx.Err(); err != nil {
			break
		}
		if _, err = conn.ExecContext(background, r.begin); err == nil && r.take != "" {
			var id int
			if err = conn.QueryRowContext(background, fmt.Sprintf(r.take, number(key))).Scan(&id); err != nil {
				_, rollback := conn.ExecContext(background, "ROLLBACK")
				err = errors.Join(err, rollback)
			}
		}
		if err == nil {
			return 0, func() error {
				_, err := conn.ExecContext(background, r.leave)
				return errors.Join(err, conn.Close())
			}, nil
		}
		if !taken(err) {
			break
		}
	}
	return 0, nil, errors.Join(err, conn.Close())
}

func (r *rowLock) close() error { return r.db.Close() }

// keys is how many different keys there are; each is a name and one of the numbers below.
const keys = 4096

func keyName(n int) string { return "bench:" + strconv.Itoa(n%keys) }

func number(key string) string { return key[strings.LastIndexByte(key, ':')+1:] }
