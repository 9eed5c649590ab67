package dibssqlite

import (
	"context"
	"math/rand/v2"
	"os"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

const (
	// To ask whether a file has changed costs little, but for the timer that wakes us to do so. The pause grows from the first to the last with the age of
	// the wait.
	firstGlance, lastGlance = 500 * time.Microsecond, 100 * time.Millisecond
	// A file system counts time in steps of some milliseconds, so that of two changes within one the second does not show.
	clockStep = 20 * time.Millisecond
	// What no change of the file tells is the passing of time: an expiry, a place in the line that lapses.
	lookAgain = 250 * time.Millisecond
)

// Wait returns when the key may be free for this waiter: it watches for the file to change, since SQLite wakes nobody in another process, and only then
// looks at the key, which takes no lock.
func (d *Driver) Wait(ctx context.Context, p dibsdriver.WaitParams) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.calls.Done()
	if err := d.ensure(ctx); err != nil {
		return dibsdriver.NotApplied(d.fail("open", err))
	}
	began := d.asked.since(p)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		// The file first: what changes after this shows at the next glance.
		seen, looked := d.glance(), time.Now()
		free, err := d.freeFor(ctx, p)
		if free || err != nil {
			return err
		}
		for time.Since(looked) < lookAgain {
			pause := min(max(time.Since(began)/32, firstGlance), lastGlance)
			timer.Reset(pause/2 + rand.N(pause/2+1))
			select {
			case <-timer.C:
			case <-ctx.Done():
				return ctx.Err()
			case <-d.closing:
				return d.closedError()
			}
			if now := d.glance(); now != seen || looked.Sub(now.at) < clockStep && time.Since(looked) > clockStep {
				break
			}
		}
	}
}

// glance is what a look at the file from outside tells.
type glance struct {
	at   time.Time
	size int64
}

// glance looks at the file that a commit writes.
func (d *Driver) glance() (g glance) {
	path := d.path
	if f := d.file.Load(); path == "" && f != nil {
		path = *f
	}
	for _, name := range []string{path + "-wal", path} {
		if fi, err := os.Stat(name); err == nil {
			return glance{fi.ModTime(), fi.Size()}
		}
	}
	return g
}

// freeFor tells whether the key is free, and nobody stands before the waiter.
func (d *Driver) freeFor(ctx context.Context, p dibsdriver.WaitParams) (free bool, err error) {
	err = d.read(ctx, "look whether it is free", func(s *session) error {
		k, err := d.look(s, p.Key, p.Waiter)
		if err != nil || k.held() {
			free = false
			return err
		}
		var l line
		if k.queued {
			if l, err = d.line(s, p.Key, p.Waiter, k.now); err != nil {
				return err
			}
		}
		free = !l.othersFirst()
		return nil
	})
	return free, err
}
