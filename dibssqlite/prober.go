package dibssqlite

import (
	"context"
	"database/sql"
	"sync"
)

// prober looks at the file from beside a transaction of somebody else: SQLite does not tell the transaction itself whether it has the write lock, nor even
// that it is one. It has a connection of its own, because one of the user's might wait for a lock (busy_timeout) that the transaction has.
type prober struct {
	mu   sync.Mutex
	db   *sql.DB
	made *readiness
}

// conn returns the connection, nil if the file cannot be opened so.
func (p *prober) conn(d *Driver) *sql.DB {
	if p.db != nil && p.made == d.ready.Load() {
		return p.db
	}
	p.closeDB()
	db, err := sql.Open("sqlite", dsn(d.filePath()))
	if err != nil {
		return nil
	}
	db.SetMaxOpenConns(1)
	p.db, p.made = db, d.ready.Load()
	return db
}

// writeLockIsFree is false also if that cannot be found out.
func (p *prober) writeLockIsFree(ctx context.Context, d *Driver) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	db := p.conn(d)
	if db == nil {
		return false
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return false
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return false
	}
	if _, err := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK"); err != nil {
		p.closeDB() // which ends it
	}
	return true
}

// committed tells whether everybody can see that a lease ends then, or later. Where the file cannot be read, a transaction is about to write to it.
func (p *prober) committed(ctx context.Context, d *Driver, key string, expires int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	db := p.conn(d)
	if db == nil {
		return false
	}
	var seen int64
	err := db.QueryRowContext(ctx, d.q.expires, []byte(key)).Scan(&seen)
	return err == nil && seen >= expires
}

func (p *prober) closeDB() {
	if p.db != nil {
		_ = p.db.Close()
		p.db = nil
	}
}

func (p *prober) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeDB()
}
