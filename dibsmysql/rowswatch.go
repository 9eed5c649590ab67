package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// rowWatchEvery is the pause between two looks, and how long a hold is left alone at first: short transactions cost the watch nothing.
	rowWatchEvery = 400 * time.Millisecond
	// rowKillWait is how long ending a statement in the server may take before its connection is closed instead.
	rowKillWait = 500 * time.Millisecond
)

// rowWatch has one more connection while somebody holds a row for long or waits for one in the server. By it waits are ended, and it sees when the server has
// ended a session: the holder's own connection, which lies still while the work does something else, cannot tell.
type rowWatch struct {
	r *Rows

	mu    sync.Mutex
	users int
	holds map[*rowHold]struct{}
	stop  chan struct{} // ends the loop; nil if there is none

	turn  chan struct{} // who has its token uses what follows
	conn  *sql.Conn
	where string    // the server that conn leads to
	began time.Time // then did it start, or less than a second later: the server counts whole ones
	away  time.Time // when it last did not answer
}

func (w *rowWatch) init(r *Rows) {
	w.r, w.holds, w.turn = r, make(map[*rowHold]struct{}), make(chan struct{}, 1)
	w.turn <- struct{}{}
}

// join makes sure that there is a connection; without one (the pool is used up, say) it is false. Who has joined leaves.
func (w *rowWatch) join(ctx context.Context) bool {
	w.enter(nil)
	ctx, cancel := context.WithTimeout(ctx, rowSlotWait)
	defer cancel()
	err := w.use(ctx, func(context.Context, *sql.Conn) error { return nil })
	if err != nil {
		w.leave()
	}
	return err == nil
}

// enter counts a user, and begins to look after h, if there is one.
func (w *rowWatch) enter(h *rowHold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.users++
	if h != nil {
		w.holds[h] = struct{}{}
	}
	if w.stop == nil {
		w.stop = make(chan struct{})
		go w.loop(w.stop)
	}
}

func (w *rowWatch) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.users--
	if w.users == 0 {
		close(w.stop)
		w.stop = nil
	}
}

func (w *rowWatch) forget(h *rowHold) {
	w.mu.Lock()
	delete(w.holds, h)
	w.mu.Unlock()
	w.leave()
}

// loop looks after the holds until nobody uses the watch any more, and then gives the connection back.
func (w *rowWatch) loop(stop chan struct{}) {
	tick := time.NewTicker(rowWatchEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			w.idle()
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*rowWatchEvery)
		// Without an answer nothing is known: the next look tells.
		_ = w.use(ctx, w.look)
		cancel()
	}
}

func (w *rowWatch) idle() {
	<-w.turn
	defer func() { w.turn <- struct{}{} }()
	w.mu.Lock()
	users := w.users
	w.mu.Unlock()
	if users == 0 && w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
}

// use runs f on the watch's connection, which it opens if need be, and drops if f fails.
func (w *rowWatch) use(ctx context.Context, f func(context.Context, *sql.Conn) error) error {
	select {
	case <-w.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { w.turn <- struct{}{} }()
	if w.conn == nil {
		if err := w.open(ctx); err != nil {
			w.away = time.Now()
			return err
		}
	}
	err := f(ctx, w.conn)
	if err != nil && code(err) == 0 {
		drop(w.conn)
		w.conn, w.away = nil, time.Now()
	}
	return err
}

// open also learns which server it is, and since when: thread numbers mean something on one server, until it starts anew.
func (w *rowWatch) open(ctx context.Context) error {
	conn, err := w.r.d.db.Conn(ctx)
	if err != nil {
		return err
	}
	var where, name, uptime string
	if err = conn.QueryRowContext(ctx, "SELECT "+rowInstanceSQL).Scan(&where); err == nil {
		err = conn.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Uptime'").Scan(&name, &uptime)
	}
	seconds, bad := strconv.ParseInt(uptime, 10, 64)
	if err = errors.Join(err, bad); err != nil {
		drop(conn)
		return err
	}
	w.conn, w.where, w.began = conn, where, time.Now().Add(-time.Duration(seconds)*time.Second)
	return nil
}

// look tells the holds whose sessions the server does not have any more.
func (w *rowWatch) look(ctx context.Context, conn *sql.Conn) error {
	w.mu.Lock()
	holds := make([]*rowHold, 0, len(w.holds))
	for h := range w.holds {
		if h.instance == w.where { // behind some addresses there are several servers
			holds = append(holds, h)
		}
	}
	w.mu.Unlock()
	if len(holds) == 0 {
		return conn.PingContext(ctx) // so that the server does not end it
	}
	threads, err := listThreads(ctx, conn)
	if err != nil {
		return err
	}
	for _, h := range holds {
		client, there := threads[h.thread]
		// A server that has started anew may have given the number to another session.
		before := h.since.Before(w.began)
		if h.client == "" {
			h.client = client
			before = before || h.since.Before(w.began.Add(time.Second)) && h.since.Before(w.away)
		}
		if !there || client != h.client || before {
			h.lose()
		}
	}
	return nil
}

// listThreads returns this user's sessions: their numbers, and the clients' addresses.
func listThreads(ctx context.Context, conn *sql.Conn) (threads map[int64]string, err error) {
	threads = make(map[int64]string)
	var values []sql.RawBytes
	host := -1
	err = eachRow(ctx, conn, "SHOW PROCESSLIST", func(rows *sql.Rows) error {
		if values == nil {
			columns, err := rows.Columns()
			if err != nil {
				return err
			}
			values, host = make([]sql.RawBytes, len(columns)), slices.Index(columns, "Host")
		}
		into := make([]any, len(values))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		id, err := strconv.ParseInt(string(values[0]), 10, 64)
		threads[id] = string(values[host])
		return err
	})
	return threads, err
}

// kill ends the statement that contains the marker, so that it does not go on waiting in the server for nobody.
func (w *rowWatch) kill(marker string) {
	ctx, cancel := context.WithTimeout(context.Background(), rowKillWait)
	defer cancel()
	for tries := 1; ; tries++ {
		err := w.use(ctx, func(ctx context.Context, conn *sql.Conn) error { return killAll(ctx, conn, []string{marker}) })
		if err == nil || !pause(ctx, tries) {
			return
		}
	}
}

// end ends the session of a hold whose connection broke: a statement of the work that is still under way there would keep the row locked until it is
// done. Where the server is not the same, or has started anew, the number may be a stranger's.
func (w *rowWatch) end(h *rowHold) {
	w.enter(nil)
	defer w.leave()
	ctx, cancel := context.WithTimeout(context.Background(), 2*rowKillWait)
	defer cancel()
	_ = w.use(ctx, func(ctx context.Context, conn *sql.Conn) error {
		if h.instance != w.where || h.since.Before(w.began) {
			return nil
		}
		_, err := conn.ExecContext(ctx, fmt.Sprintf("KILL %d", h.thread))
		return err
	})
}
