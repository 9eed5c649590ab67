package dibssqlite

import (
	"database/sql"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// keyState is what look.sql tells of a key.
type keyState struct {
	now   int64 // ms
	floor int64 // no token of a row that was deleted is higher
	// The row, all zero if there is none.
	token, expires, since int64
	owner                 string // empty: free
	open                  bool
	holder, note          string

	queued bool  // there are waiters, dead ones included
	seen   int64 // when our waiter asked last; 0 never
}

func (d *Driver) look(s *session, key, waiter string) (k keyState, err error) {
	var token, expires, since, seen sql.NullInt64
	var owner, holder, note sql.NullString
	var open sql.NullBool
	err = s.row(d.q.look, []byte(key), waiter).Scan(&k.now, &token, &owner, &expires, &since, &open, &holder, &note,
		&k.floor, &k.queued, &seen)
	k.token, k.expires, k.since, k.seen = token.Int64, expires.Int64, since.Int64, seen.Int64
	k.owner, k.holder, k.note, k.open = owner.String, holder.String, note.String, open.Bool
	return k, err
}

func (k *keyState) held() bool {
	return k.owner != "" && k.expires > k.now
}

// record describes the holder; of a free key it is only the name.
func (k *keyState) record(key string) dibsdriver.Record {
	if !k.held() {
		return dibsdriver.Record{Key: key}
	}
	return dibsdriver.Record{
		Key: key, Holder: k.holder, Note: k.note, Token: k.token,
		Since:     time.UnixMilli(k.since).UTC(),
		ExpiresIn: time.Duration(k.expires-k.now) * time.Millisecond,
	}
}
