package dibsmysql

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// row is what the store knows of a key.
type row struct {
	there        bool
	token        int64
	owner        sql.NullString
	open         bool
	left, since  int64 // microseconds
	holder, note sql.NullString
}

func (r *row) held() bool { return r.owner.Valid && r.left > 0 }

func (r *row) record(key string) dibsdriver.Record {
	return dibsdriver.Record{
		Key: key, Holder: r.holder.String, Note: r.note.String, Token: r.token,
		Since: time.UnixMicro(r.since).UTC(), ExpiresIn: time.Duration(max(r.left, 0)) * time.Microsecond,
	}
}

// look reads a key's row without waiting for anybody.
func (d *Driver) look(ctx context.Context, doing, key string) (row, error) {
	var r row
	d.looks.Add(1)
	err := d.send(ctx, request{doing: doing, take: d.takeSpare, reads: true}, func(conn *sql.Conn) error {
		r = row{}
		return eachRow(ctx, conn, d.q.look.with(literal(key)), func(rows *sql.Rows) error {
			r.there = true
			return rows.Scan(&r.token, &r.owner, &r.open, &r.left, &r.since, &r.holder, &r.note)
		})
	})
	return r, err
}

// busyKeys are the keys that were held by others a moment ago. Who asks for one of them again only reads: that locks nothing, and
// tells at once who has it.
type busyKeys struct {
	mu   sync.Mutex
	seen map[string]time.Time
}

const (
	busyFor  = time.Second
	busyMost = 4096
)

func (b *busyKeys) note(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen == nil || len(b.seen) >= busyMost {
		b.seen = make(map[string]time.Time) // all of this saves work, no more
	}
	b.seen[key] = time.Now()
}

func (b *busyKeys) forget(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.seen, key)
}

func (b *busyKeys) recently(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, ok := b.seen[key]
	return ok && time.Since(at) < busyFor
}
