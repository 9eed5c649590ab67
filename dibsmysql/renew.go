package dibsmysql

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/dibs-go/dibs/dibsdriver"
)

type leaseID struct{ key, owner string }

// Renew renews the leases in one statement (for each TTL among them, and each 500), on a connection of its own. What it does not answer for by
// itself, since a row was locked by somebody or the lease is lost, a second one reads.
func (d *Driver) Renew(ctx context.Context, leases []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.calls.Done()
	answers := make([]dibsdriver.RenewAnswer, len(leases))
	due := make(map[int64][]leaseID) // by TTL
	for i, l := range leases {
		if l.TTL <= 0 {
			answers[i] = dibsdriver.Refused
			continue
		}
		d.asked(l.TTL)
		ttl := micros(l.TTL)
		due[ttl] = append(due[ttl], leaseID{l.Key, l.Owner})
	}
	if len(due) == 0 {
		return answers, nil
	}
	server, err := d.ensure(ctx)
	if err != nil {
		return nil, err
	}
	size := renewBatch
	if !server.skipLocked {
		size = 1
	}
	found := make(map[leaseID]dibsdriver.RenewAnswer, len(leases))
	for ttl, ids := range due {
		for part := range slices.Chunk(ids, size) {
			b := d.batch(server, ttl, part)
			err := d.send(ctx, request{doing: "renew", take: d.takeKeeper, reads: true}, func(conn *sql.Conn) error {
				// Sent again after a failure it does no harm: it never revives a lease, and its time counts from when it took effect.
				return b.renew(ctx, conn, found)
			})
			if err != nil {
				return nil, err
			}
		}
	}
	for i, l := range leases {
		if answers[i] != dibsdriver.Refused {
			answers[i] = found[leaseID{l.Key, l.Owner}]
		}
		if answers[i] == dibsdriver.Lost {
			d.dropTurn(server, l.Key, l.Owner)
		}
	}
	return answers, nil
}

// batch is leases that are renewed at once.
type batch struct {
	ids             []leaseID // each once
	ttl             int64
	renewal, lookup string
}

func (d *Driver) batch(server *server, ttl int64, ids []leaseID) *batch {
	b := &batch{ttl: ttl}
	seen := make(map[leaseID]bool, len(ids))
	var list strings.Builder
	for _, id := range ids {
		if seen[id] {
			continue
		}
		seen[id] = true
		b.ids = append(b.ids, id)
		if list.Len() > 0 {
			list.WriteByte(',')
		}
		list.WriteString("(" + literal(id.key) + "," + literal(id.owner) + ")")
	}
	if server.skipLocked {
		b.renewal = d.q.renew.with(list.String(), number(int64(len(b.ids))), number(ttl))
	} else {
		b.renewal = d.q.renewOne.with(literal(ids[0].key), literal(ids[0].owner), number(ttl))
	}
	b.lookup = d.q.standing.with(list.String())
	return b
}

func (b *batch) renew(ctx context.Context, conn *sql.Conn, found map[leaseID]dibsdriver.RenewAnswer) error {
	began, all, err := b.send(ctx, conn)
	locked := code(err) == 1205 // the one row; it is not waited for a second time
	if err != nil && !locked {
		return err
	}
	if all {
		for _, id := range b.ids {
			found[id] = dibsdriver.Renewed
		}
		return nil
	}
	stand, err := b.look(ctx, conn, began, found)
	if err != nil || began > 0 || stand == 0 || locked {
		return err
	}
	// Leases stand, and the server does not say since when: all are locked, or the table has triggers, which take the place of the answer. The time before
	// the statement will do.
	if err := conn.QueryRowContext(ctx, "SELECT "+nowUSSQL).Scan(&began); err != nil {
		return err
	}
	if _, _, err := b.send(ctx, conn); err != nil && code(err) != 1205 {
		return err
	}
	_, err = b.look(ctx, conn, began, found)
	return err
}

// send renews. It returns the server's time as of which it did, if it is known, and whether all leases are renewed for sure.
func (b *batch) send(ctx context.Context, conn *sql.Conn) (began int64, all bool, err error) {
	res, err := conn.ExecContext(ctx, b.renewal)
	if err != nil {
		return 0, false, err
	}
	if began, err = res.LastInsertId(); err != nil {
		return 0, false, err
	}
	// Whether this counts the rows that were found or those that were changed: not more than there are leases.
	n, err := res.RowsAffected()
	return began, n == int64(len(b.ids)), err
}

// look reads what became of the leases, and returns how many stand.
func (b *batch) look(ctx context.Context, conn *sql.Conn, began int64, found map[leaseID]dibsdriver.RenewAnswer) (stand int, err error) {
	for _, id := range b.ids {
		found[id] = dibsdriver.Lost
	}
	err = eachRow(ctx, conn, b.lookup, func(rows *sql.Rows) error {
		var id leaseID
		var end int64
		if err := rows.Scan(&id.key, &id.owner, &end); err != nil {
			return err
		}
		stand++
		found[id] = dibsdriver.Unknown
		if began > 0 && end >= began+b.ttl {
			found[id] = dibsdriver.Renewed
		}
		return nil
	})
	return stand, err
}
