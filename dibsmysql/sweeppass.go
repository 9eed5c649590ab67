package dibsmysql

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"
)

const (
	sweepWindow = 1000 // rows that are read at a time
	sweepBatch  = 50   // rows that are removed at a time, and locked meanwhile

	// sweepLimit bounds each statement of a pass: a server that does not answer must not keep it for ever.
	sweepLimit = 10 * time.Second

	// After each statement a pass pauses, the longer the longer it took: so it has half of what a connection can do to the disk, a fifth of what one can read, and less the
	// more others there are.
	pauseWriting, pauseReading = 1, 4
)

// sweepPass is one pass over the table, window by window along the primary key. There is no index to find old rows by: with one on the expiry, acquisitions
// deadlocked. Each statement is a transaction of its own and gives its connection back, so that there is nothing to clean up wherever a pass ends.
type sweepPass struct {
	d         *Driver
	waits     bool   // for rows that others have locked, where it cannot be helped
	retention string // microseconds, as SQL
	turn      sweepTurn
	rows      int64
	age       int64 // of the oldest stale row, in microseconds
}

// sweep makes a pass.
func (d *Driver) sweep(ctx context.Context, asked time.Duration) (r SweepReport) {
	began := time.Now()
	contact, cancel := context.WithTimeout(ctx, sweepLimit)
	s, err := d.ensure(contact)
	cancel()
	if err != nil {
		return SweepReport{Err: err}
	}
	retention, err := d.retention(asked)
	if err != nil {
		return SweepReport{Err: err}
	}
	p := &sweepPass{d: d, waits: !s.skipLocked || s.statements, retention: number(micros(retention)), turn: sweepTurn{d: d}}
	if r.Err = p.turn.take(ctx); r.Err == nil {
		r.Err = p.walk(ctx)
		p.turn.end(ctx)
	}
	r.Rows, r.Took = p.rows, time.Since(began)
	if p.age > 0 {
		r.Lag = time.Duration(p.age)*time.Microsecond - retention
	}
	return r
}

func (p *sweepPass) walk(ctx context.Context) error {
	// No key sorts before this one. (X'' is NULL under some SQL modes.) The row of the key "\x00" itself stays, which harms nobody.
	for after := "\x00"; ; {
		began := time.Now()
		last, stale, err := p.window(ctx, after)
		if err != nil || last == "" {
			return err
		}
		if stale {
			if err := p.clean(ctx, after, last); err != nil {
				return err
			}
		}
		after = last
		if !stale && !p.pause(ctx, pauseReading*time.Since(began)) {
			return p.d.fail("remove old rows", ctx.Err())
		}
		if err := p.turn.keep(ctx); err != nil {
			return err
		}
	}
}

// window looks at the next rows behind a key: which is the last, empty if there is none, and whether some are stale.
func (p *sweepPass) window(ctx context.Context, after string) (last string, stale bool, err error) {
	statement := p.d.sweeps.window.with(p.retention, literal(after), number(sweepWindow))
	err = p.d.sweepRead(ctx, statement, func(rows *sql.Rows) error {
		var key sql.NullString
		var n, age int64
		if err := rows.Scan(&key, &n, &age); err != nil {
			return err
		}
		last, stale, p.age = key.String, n > 0, max(p.age, age)
		return nil
	})
	return last, stale, err
}

// clean removes the stale rows of a window. The floor of the tokens comes first: whoever sees that a row has gone sees it, too.
func (p *sweepPass) clean(ctx context.Context, after, last string) error {
	var keys []string
	var floor int64
	err := p.d.sweepRead(ctx, p.d.sweeps.stale.with(p.retention, literal(after), literal(last)), func(rows *sql.Rows) error {
		var key string
		var token int64
		err := rows.Scan(&key, &token)
		keys, floor = append(keys, literal(key)), max(floor, token)
		return err
	})
	if err != nil || len(keys) == 0 {
		return err
	}
	if _, _, err := p.d.sweepWrite(ctx, p.d.sweeps.floor.with(number(floor))); err != nil {
		return err
	}
	for batch := range slices.Chunk(keys, sweepBatch) {
		began := time.Now()
		if err := p.remove(ctx, batch, floor); err != nil {
			return err
		}
		if !p.pause(ctx, pauseWriting*time.Since(began)) {
			return p.d.fail("remove old rows", ctx.Err())
		}
		if err := p.turn.keep(ctx); err != nil {
			return err
		}
	}
	return nil
}

// safeUpdates is the server's error where sql_safe_updates is on, and it does not see that the statement finds its rows by their keys.
const safeUpdates = 1175

// remove removes those of the rows that are still stale.
func (p *sweepPass) remove(ctx context.Context, keys []string, floor int64) error {
	list := strings.Join(keys, ",")
	if !p.waits {
		_, n, err := p.d.sweepWrite(ctx, p.d.sweeps.sweep.with(p.retention, list, number(floor), number(int64(len(keys)))))
		p.rows += n
		if code(err) != safeUpdates {
			return err
		}
		p.waits = true
	}
	_, n, err := p.d.sweepWrite(ctx, p.d.sweeps.wait.with(p.retention, list, number(floor)))
	p.rows += n
	return err
}

// pause lets others go first; also while they use the pool up.
func (p *sweepPass) pause(ctx context.Context, pause time.Duration) bool {
	for ok := rest(ctx, pause); ; ok = rest(ctx, patience) {
		if !ok || !p.d.full() {
			return ok
		}
	}
}

// takeAny is a connection of the pool, and never the keeper's, on which renewals go.
func (d *Driver) takeAny(ctx context.Context) (session, error) {
	conn, err := d.db.Conn(ctx)
	return session{conn, nil}, err
}

func (d *Driver) sweepRead(ctx context.Context, statement string, scan func(*sql.Rows) error) error {
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	return d.send(ctx, request{doing: "look for old rows", take: d.takeAny, reads: true}, func(conn *sql.Conn) error {
		return eachRow(ctx, conn, statement, scan)
	})
}

// sweepWrite returns what LAST_INSERT_ID carried, and how many rows the server says it has changed. Its statements may be sent twice.
func (d *Driver) sweepWrite(ctx context.Context, statement string) (id, rows int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	err = d.send(ctx, request{doing: "remove old rows", take: d.takeAny, reads: true}, func(conn *sql.Conn) error {
		res, err := conn.ExecContext(ctx, statement)
		if err != nil {
			return err
		}
		if id, err = res.LastInsertId(); err != nil {
			return err
		}
		rows, err = res.RowsAffected()
		return err
	})
	return id, rows, err
}
