package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"
)

// insertTable is the lock table of the articles that recommend this; see README.md.
const insertTable = "CREATE TABLE distributed_lock (id BIGINT NOT NULL AUTO_INCREMENT, lock_key VARCHAR(192) NOT NULL, owner VARCHAR(128) NOT NULL, " +
	"expire_time DATETIME NOT NULL, create_time DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (id), UNIQUE KEY uk_lock_key (lock_key), " +
	"KEY idx_expire_time (expire_time)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"

// The same on SQLite.
const insertTableSQLite = "CREATE TABLE distributed_lock (id INTEGER PRIMARY KEY AUTOINCREMENT, lock_key TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, " +
	"expire_time TEXT NOT NULL, create_time TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP); CREATE INDEX idx_expire_time ON distributed_lock (expire_time)"

// retryEvery is how long the articles' code sleeps when the key is taken.
const retryEvery = 100 * time.Millisecond

// insertion takes a key by inserting a row with it, which is unique, and releases it by deleting the row.
type insertion struct {
	db                   *sql.DB
	insertSQL, deleteSQL string
}

func openInsert(s store, workers int) (contender, error) {
	db, err := s.peersPool(workers)
	expires := "DATE_ADD(NOW(), INTERVAL ? SECOND)"
	if s.Name == "sqlite" {
		expires = "datetime('now', '+' || ? || ' seconds')"
	}
	return &insertion{
		db:        db,
		insertSQL: "INSERT INTO distributed_lock(lock_key, owner, expire_time) VALUES (?, ?, " + expires + ")",
		deleteSQL: "DELETE FROM distributed_lock WHERE lock_key = ? AND owner = ?",
	}, err
}

func (i *insertion) lock(ctx context.Context, key string) (int64, func() error, error) {
	owner := rand.Text()
	for {
		// The statement itself is not given ctx: one that is cut off may have inserted the row.
		_, err := i.db.ExecContext(context.Background(), i.insertSQL, key, owner, int(leaseTTL/time.Second))
		switch {
		case err == nil:
			return 0, func() error { return i.unlock(key, owner) }, nil
		case !taken(err):
			return 0, nil, err
		}
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		}
	}
}

func (i *insertion) unlock(key, owner string) error {
	for {
		r, err := i.db.ExecContext(context.Background(), i.deleteSQL, key, owner)
		if err != nil {
			if taken(err) { // a deadlock with those who insert
				continue
			}
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n != 1 {
			return fmt.Errorf("bench: key %s: the row to delete is not there (%d, %w)", key, n, err)
		}
		return nil
	}
}

func (i *insertion) close() error { return i.db.Close() }

// taken tells whether an error means that somebody else was there.
func taken(err error) bool {
	var m *mysql.MySQLError
	var s *sqlite.Error
	switch {
	case errors.As(err, &m):
		return m.Number == 1062 || m.Number == 1213 || m.Number == 1205 // the row is there; a deadlock; waited too long
	case errors.As(err, &s):
		return s.Code()&0xff == 5 || strings.Contains(s.Error(), "UNIQUE") // the file is locked; the row is there
	}
	return false
}
