package dibsmysql

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/dibs-go/dibs"
)

// sweepQuiet is between two lines in the log that say the same.
const sweepQuiet = time.Minute

// startSweeping begins to sweep, if that was asked for, with the first lock: who only looks at the store does not.
func (d *Driver) startSweeping() {
	if d.sweeping != nil && !d.swept.Swap(true) {
		d.inBackground(func(ctx context.Context) { newSweeper(d).run(ctx) })
	}
}

// sweeper is the goroutine of a driver that sweeps.
type sweeper struct {
	d      *Driver
	cfg    SweepConfig
	later  bool                 // a pass was made before
	logged map[string]time.Time // when what was last said
}

func newSweeper(d *Driver) *sweeper {
	w := &sweeper{d: d, cfg: *d.sweeping, logged: make(map[string]time.Time)}
	if w.cfg.Every == 0 {
		w.cfg.Every = defaultSweepEvery
	}
	if w.cfg.Logger == nil {
		w.cfg.Logger = slog.Default()
	}
	return w
}

func (w *sweeper) run(ctx context.Context) {
	for rest(ctx, w.cfg.Every/2+rand.N(w.cfg.Every)) {
		if w.d.full() { // business work that needs the pool comes first
			continue
		}
		due, err := w.d.sweepDue(ctx, w.cfg.Every)
		r := SweepReport{Err: err}
		if due {
			r = w.d.sweep(ctx, w.cfg.Retention)
		}
		// The driver may have been closed, or another process have been quicker.
		if ctx.Err() == nil && (due || err != nil) && !errors.Is(r.Err, dibs.ErrBusy) {
			w.tell(r)
		}
	}
}

// tell passes on what a pass did. A driver's first one meets what came before anybody swept, which is no sign that sweeping is too slow.
func (w *sweeper) tell(r SweepReport) {
	retention, _ := w.d.retention(w.cfg.Retention)
	switch {
	case r.Err != nil:
		w.log("dibs: old rows cannot be removed", "error", r.Err)
	case w.later && r.Lag > retention+2*w.cfg.Every:
		w.log("dibs: rows become old faster than they can be removed; use fewer keys that are new each time, or give the server faster disks",
			"store", w.d.name(), "lag", r.Lag, "rows", r.Rows, "took", r.Took)
	}
	w.later = w.later || r.Err == nil
	if w.cfg.Report == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			w.cfg.Logger.Error("dibs: SweepConfig.Report panicked", "store", w.d.name(), "panic", p)
		}
	}()
	w.cfg.Report(r)
}

func (w *sweeper) log(msg string, args ...any) {
	if at, ok := w.logged[msg]; ok && time.Since(at) < sweepQuiet {
		return
	}
	w.logged[msg] = time.Now()
	w.cfg.Logger.Warn(msg, args...)
}

// rest waits; false if ctx ended first.
func rest(ctx context.Context, pause time.Duration) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
