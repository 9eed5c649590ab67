package dibssqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/dibs-go/dibs/dibsdriver"
)

type leaseID struct{ key, owner string }

// Renew renews all leases in one transaction, on a connection of its own and before everything else that waits in this process. An
// error is of all of them.
func (d *Driver) Renew(ctx context.Context, leases []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.calls.Done()
	answers := make([]dibsdriver.RenewAnswer, len(leases))
	due := make(map[leaseID]int64, len(leases))
	for i, l := range leases {
		if l.TTL <= 0 {
			answers[i] = dibsdriver.Refused
			continue
		}
		id := leaseID{l.Key, l.Owner}
		due[id] = max(due[id], millis(l.TTL))
	}
	if len(due) == 0 {
		return answers, nil
	}
	if err := d.ensure(ctx); err != nil {
		return nil, dibsdriver.NotApplied(d.fail("open", err))
	}
	batches, err := renewalBatches(due)
	if err != nil {
		return nil, dibsdriver.NotApplied(d.fail("renew", err))
	}

	var renewed map[leaseID]bool
	err = d.write(ctx, "renew", d.keeper, func(s *session) error {
		renewed = make(map[leaseID]bool, len(due))
		nowMS, err := s.now()
		if err != nil {
			return err
		}
		for _, batch := range batches {
			err := s.each(func(rows *sql.Rows) error {
				var key sql.RawBytes
				var owner string
				if err := rows.Scan(&key, &owner); err != nil {
					return err
				}
				renewed[leaseID{string(key), owner}] = true
				return nil
			}, d.q.renew, batch, nowMS)
			if err != nil {
				return err
			}
		}
		if len(renewed) == 0 {
			return errNoChange
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, l := range leases {
		switch {
		case answers[i] == dibsdriver.Refused:
		case renewed[leaseID{l.Key, l.Owner}]:
			answers[i] = dibsdriver.Renewed
		default:
			answers[i] = dibsdriver.Lost
		}
	}
	return answers, nil
}

// renewalBatches writes the JSON for renew.sql.
func renewalBatches(due map[leaseID]int64) ([]string, error) {
	all := make([][3]any, 0, len(due))
	for id, ttl := range due {
		all = append(all, [3]any{hex.EncodeToString([]byte(id.key)), id.owner, ttl})
	}
	var batches []string
	for part := range slices.Chunk(all, renewBatch) {
		text, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		batches = append(batches, string(text))
	}
	return batches, nil
}

// reserveKeeper takes the connection for renewals out of the user's pool before there is anything to renew: when the first renewal is due, the
// pool may be used up.
func (d *Driver) reserveKeeper(ctx context.Context) error {
	if d.own || d.kept.Load() == d.ready.Load() {
		return nil
	}
	s, err := d.take(ctx, d.keeper)
	if err != nil {
		return dibsdriver.NotApplied(d.fail("reserve a connection for renewals", err))
	}
	d.kept.Store(s.made)
	d.put(d.keeper, s)
	return nil
}
