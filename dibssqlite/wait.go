package dibssqlite

import (
	"context"
	"math/rand/v2"
	"os"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// A waiter looks whether the file was written to, which costs microseconds, and only then into it.
const (
	watchMin, watchMax = 2 * time.Millisecond, 125 * time.Millisecond
	// settling is how long after a write the file is looked into every time: what was written is seen by others only when it is committed, a moment later, and
	// a file system's times are coarse.
	settling = 100 * time.Millisecond
	// lookAnyway bounds how late a commit is seen that took longer than that.
	lookAnyway = 500 * time.Millisecond
)

// Wait returns when the key may be free for the waiter. It writes nothing.
func (d *Driver) Wait(ctx context.Context, p dibsdriver.WaitParams) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.calls.Done()
	if err := d.ensure(ctx); err != nil {
		return dibsdriver.NotApplied(d.fail("open", err))
	}
	w := &watch{d: d, p: p}
	for {
		if free, err := w.look(ctx); free || err != nil {
			return err
		}
		// Who has had the key for long will have it for longer, most often.
		pause := min(max(time.Since(w.held)/12, watchMin), watchMax)
		if err := d.rest(ctx, pause/2+rand.N(pause/2)); err != nil {
			return err
		}
	}
}

// rest waits for a moment, unless ctx ends first, or the driver is closed.
func (d *Driver) rest(ctx context.Context, moment time.Duration) error {
	t := time.NewTimer(moment)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-d.closing:
		return d.closedError()
	}
}

// watch is one wait.
type watch struct {
	d *Driver
	p dibsdriver.WaitParams

	seen   written   // what was written when the key was last looked at
	at     time.Time // when that was
	held   time.Time // since when its holder was seen to have it
	until  time.Time // when it changes by itself: the lease expires
	others bool      // it is free, and others stand first, some of them perhaps dead
}

// look tells whether the key is there to be taken, looking no closer than it has to.
func (w *watch) look(ctx context.Context) (free bool, err error) {
	now := time.Now()
	before := w.d.written()
	quiet := before == w.seen && before.last != 0 && now.UnixNano()-before.last > int64(settling) && !w.others
	if quiet && now.Before(w.until) && now.Sub(w.at) < lookAnyway {
		return false, nil
	}
	err = w.d.read(ctx, "look whether it is free", func(s *session) error {
		k, err := w.d.look(s, w.p.Key, w.p.Waiter)
		if err != nil {
			return err
		}
		w.held = w.d.asked.held(w.p, k.token)
		w.until = now.Add(time.Duration(k.expires-k.now) * time.Millisecond)
		if free = !k.held(); !free || !k.queued {
			w.others = false
			return nil
		}
		line, err := w.d.line(s, w.p.Key, w.p.Waiter, k.now)
		w.others = line.othersFirst()
		free = !w.others
		return err
	})
	w.seen, w.at = before, now
	return free && err == nil, err
}

// written is what the file system tells of the last write to the database.
type written struct {
	last      int64 // ns since 1970; 0 if it does not tell
	main, wal int64 // the same, of each file
	sizes     [2]int64
}

func (d *Driver) written() (w written) {
	path := d.filePath()
	if r := d.ready.Load(); r != nil && d.own {
		path = r.path
	}
	if path == "" {
		return w
	}
	main, err := os.Stat(path)
	if err != nil {
		return w
	}
	w.main, w.sizes[0] = main.ModTime().UnixNano(), main.Size()
	if wal, err := os.Stat(path + "-wal"); err == nil {
		w.wal, w.sizes[1] = wal.ModTime().UnixNano(), wal.Size()
	} else if !os.IsNotExist(err) {
		return written{}
	}
	w.last = max(w.main, w.wal)
	return w
}
