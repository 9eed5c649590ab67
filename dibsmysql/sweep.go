package dibsmysql

import (
	"context"
	"log/slog"
	"time"
)

// SweepConfig lets a [Driver] remove the rows of keys that nobody has used for a while. The zero value is all defaults.
type SweepConfig struct {
	// Retention is how long a row stays after its key became free, or its lease expired: a second at least, and not less than the longest TTL (or min
	// hold) that the driver was asked for, or nothing is removed, and Report and the log say why; ten years at most. Default: a minute, or that TTL where it is longer.
	Retention time.Duration
	// Every is the pause after a pass, of whichever process, until the next. At least 100 ms, at most ten years, default 5 s.
	Every time.Duration
	// Report is told of each pass of this driver, by the goroutine that sweeps: while it blocks nothing is swept, and Close waits for it. May be nil.
	Report func(SweepReport)
	// Logger is warned when rows become old faster than they can be removed, or cannot be removed: the first time, and then once a minute at most.
	// Default slog.Default().
	Logger *slog.Logger
}

// SweepReport is what one pass over the table did.
type SweepReport struct {
	// Rows is how many rows were removed.
	Rows int64
	// Lag is how much longer than the retention the oldest row that was found had stayed.
	Lag time.Duration
	// Took is how long the pass lasted.
	Took time.Duration
	// Err is why the pass ended early, nil if it did not: an error such as [Driver.Sweep] returns.
	Err error
}

const (
	defaultRetention  = time.Minute
	minRetention      = time.Second
	defaultSweepEvery = 5 * time.Second
	minSweepEvery     = 100 * time.Millisecond
	maxSweepTime      = 10 * 365 * 24 * time.Hour // what is longer is a mistake, or would be one when added to something
)

// check finds what can be known to be wrong without asking anybody.
func (c *SweepConfig) check() error {
	switch {
	case c == nil:
		return nil
	case c.Retention != 0 && c.Retention < minRetention:
		return refused("dibs: mysql: SweepConfig.Retention is %s: it must be %s at least, and not shorter than the longest TTL (0 is the default, %s)",
			c.Retention, minRetention, defaultRetention)
	case c.Retention > maxSweepTime:
		return refused("dibs: mysql: SweepConfig.Retention is %s: more than ten years (%s) is not kept; to keep all rows, do not sweep", c.Retention, maxSweepTime)
	case c.Every > maxSweepTime:
		return refused("dibs: mysql: SweepConfig.Every is %s, more than ten years (%s); not to sweep by itself, leave Config.Sweep out", c.Every, maxSweepTime)
	case c.Every != 0 && c.Every < minSweepEvery:
		return refused("dibs: mysql: SweepConfig.Every is %s: it must be %s at least (0 is the default, %s)", c.Every, minSweepEvery, defaultSweepEvery)
	}
	return nil
}

// Sweep makes one pass over the table now, and removes the rows of keys that have been free, or expired, for the retention (0: the default of [SweepConfig]).
// It can be used with or without Config.Sweep. One process at a time sweeps: while another does, the error is dibs.ErrBusy. Others match dibs.ErrUnavailable,
// with dibs.ErrReadOnly for a server that takes no writes, and dibsdriver.ErrRefused where a right is missing or the retention is shorter than the
// longest TTL that this driver was asked for. Beside an error, the report tells what was done before it.
//
// A pass takes its time, so that it is in nobody's way: a million rows to remove are some minutes.
func (d *Driver) Sweep(ctx context.Context, retention time.Duration) (SweepReport, error) {
	if err := d.enter(ctx); err != nil {
		return SweepReport{Err: err}, err
	}
	defer d.calls.Done()
	if err := (&SweepConfig{Retention: retention}).check(); err != nil {
		return SweepReport{Err: err}, err
	}
	r := d.sweep(ctx, retention)
	return r, r.Err
}

// retention is how long rows stay: longer than whatever is still under way for their leases.
func (d *Driver) retention(asked time.Duration) (time.Duration, error) {
	longest := time.Duration(d.longest.Load())
	switch {
	case asked == 0:
		return max(defaultRetention, longest), nil
	case asked < longest:
		return 0, refused("dibs: %s: rows are to be removed %s after their lease, and that is shorter than the longest TTL or min hold in use, %s; "+
			"raise the retention (SweepConfig.Retention), or leave it to its default", d.name(), asked, longest)
	}
	return asked, nil
}

// asked notes how long leases are.
func (d *Driver) asked(ttl time.Duration) {
	for {
		longest := d.longest.Load()
		if int64(ttl) <= longest || d.longest.CompareAndSwap(longest, int64(ttl)) {
			return
		}
	}
}
