package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// Copies of the statements by which the drivers acquire and release; a test compares them with the originals.
var (
	//go:embed sql/mysql_acquire.sql
	mysqlAcquire string
	//go:embed sql/mysql_release.sql
	mysqlRelease string
	//go:embed sql/sqlite_acquire.sql
	sqliteAcquire string
	//go:embed sql/sqlite_release.sql
	sqliteRelease string
)

var sqlComment = regexp.MustCompile(`(?m)(^|\s)--.*$`)

// statement leaves of a file what is sent to a server.
func statement(text, now string) string {
	text = sqlComment.ReplaceAllString(text, "")
	text = strings.NewReplacer("$NOW_US", "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))", "$NOW", now).Replace(text)
	return strings.Join(strings.Fields(text), " ")
}

func openSQL(s store, workers int) (contender, error) {
	if s.Name == "sqlite" {
		return openFileStatements(s)
	}
	db, err := s.pool(workers)
	return &serverStatements{db, statement(mysqlAcquire, "UTC_TIMESTAMP(6)"), statement(mysqlRelease, "UTC_TIMESTAMP(6)")}, err
}

// serverStatements are the two statements by hand: what the server, the network and database/sql cost.
type serverStatements struct {
	db               *sql.DB
	acquire, release string
}

func (s *serverStatements) lock(ctx context.Context, key string) (int64, func() error, error) {
	literal := func(v string) string { return "X'" + hex.EncodeToString([]byte(v)) + "'" }
	fill := strings.NewReplacer("{key}", literal(key), "{owner}", literal(rand.Text()), "{ttl}", fmt.Sprint(leaseTTL.Microseconds()), "{floor}",
		fmt.Sprint(dibsdriver.TokenStep), "{holder}", "_utf8mb4 "+literal("bench"), "{note}", "NULL", "{told}", "1")
	r, err := s.db.ExecContext(ctx, fill.Replace(s.acquire))
	if err != nil {
		return 0, nil, err
	}
	token, err := r.LastInsertId()
	if err == nil && token <= 0 {
		err = fmt.Errorf("bench: key %s is busy, and nobody should have it", key)
	}
	return token, func() error {
		_, err := s.db.ExecContext(context.Background(), fill.Replace(s.release))
		return err
	}, err
}

func (s *serverStatements) close() error { return s.db.Close() }

// fileStatements are the same for SQLite, prepared once on one connection, as its driver has them.
type fileStatements struct {
	mu               sync.Mutex
	db               *sql.DB
	acquire, release *sql.Stmt
}

func openFileStatements(s store) (contender, error) {
	const now = "CAST(round(unixepoch('subsec') * 1000) AS INTEGER)"
	db, err := sql.Open("sqlite", "file:"+s.locksFile()+"?_pragma=busy_timeout(5000)&_pragma=synchronous(NORMAL)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	f := &fileStatements{db: db}
	if f.acquire, err = db.Prepare(statement(sqliteAcquire, now)); err == nil {
		f.release, err = db.Prepare(statement(sqliteRelease, now))
	}
	return f, err
}

func (f *fileStatements) lock(_ context.Context, key string) (token int64, unlock func() error, err error) {
	owner := rand.Text()
	f.mu.Lock()
	defer f.mu.Unlock()
	err = f.acquire.QueryRow([]byte(key), dibsdriver.TokenStep, owner, leaseTTL/time.Millisecond, "bench", "", int64(dibsdriver.MaxToken)).Scan(&token)
	return token, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		var one int
		return f.release.QueryRow([]byte(key), owner, 0).Scan(&one)
	}, err
}

func (f *fileStatements) close() error {
	return errors.Join(f.acquire.Close(), f.release.Close(), f.db.Close())
}
