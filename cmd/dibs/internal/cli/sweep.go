package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/cmd/dibs/internal/durations"
	"github.com/dibs-go/dibs/cmd/dibs/internal/exit"
	"github.com/dibs-go/dibs/cmd/dibs/internal/signals"
	"github.com/dibs-go/dibs/cmd/dibs/internal/storeurl"
)

// usualTTL is how long leases are where nobody has said otherwise: no other process is asked for how long its own are.
const usualTTL = 30 * time.Second

// sweepJSON is what --json shows. Its names are part of the command's contract.
type sweepJSON struct {
	Removed   int64   `json:"removed"`
	Lag       float64 `json:"lag_seconds"`
	Took      float64 `json:"took_seconds"`
	ByItself  bool    `json:"by_itself"`
	Retention float64 `json:"retention_seconds"`
}

func newSweep() *cobra.Command {
	var store storeFlags
	var asJSON bool
	retention := durations.Value{D: time.Minute, NotZero: "rows of keys in use would go: give it a minute or more"}
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Remove the rows of keys that nobody uses any more",
		Long: `Makes one pass over the store, removes the rows of keys that have been free or expired for longer than --retention, and says how many. Keys
that are held, renewed or taken meanwhile are not touched, and the tokens of a key that comes back go on rising.

On MySQL and MariaDB the row of a key stays when it is released. Where keys are new each time (an order, a payment), run this from cron, or let
a program that uses the library do it all the time (SweepConfig). One process at a time sweeps; it makes pauses, so that locks do not become
slow, and a million rows take some minutes. SQLite removes its old rows by itself.

Make --retention longer than the longest TTL that is used with this store.

Exit status: 0 when the pass is done, 64 for wrong usage, 69 when the store cannot be used, 75 when another process is sweeping at the moment,
128+n when signal n (HUP, INT, QUIT, TERM, USR1, USR2) ended it. HUP and INT stay ignored if they were from the start (nohup).`,
		Example: `  dibs sweep --store-file /etc/dibs/store
  dibs sweep --retention 1h --json`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if retention.D < usualTTL {
				return exit.Errorf(exit.Usage, "--retention is %s: it must not be shorter than the longest TTL, which is %s unless you chose another", retention.D, usualTTL)
			}
			ctx, signalled := untilSignalled(cmd.Context())
			o, err := store.open(&dibs.Config{})
			if err != nil {
				return err
			}
			defer o.close(closeLimit)
			j, err := sweepStore(ctx, o, retention.D)
			switch sig := signalled(); {
			case err != nil && sig != 0:
				return exit.Errorf(exit.Signal+int(sig), "ended by %s; removed %d %s before", sig, j.Removed, plural(j.Removed))
			case err != nil:
				return err
			case asJSON:
				return outJSON(cmd, j)
			case j.ByItself:
				return out(cmd.OutOrStdout(), exit.Printable(o.Name+" removes its old rows by itself: there is nothing to do")+"\n")
			}
			return out(cmd.OutOrStdout(), fmt.Sprintf("removed %d %s in %s\n", j.Removed, plural(j.Removed), time.Duration(j.Took*float64(time.Second)).Round(time.Millisecond)))
		},
	}
	store.add(cmd.Flags())
	cmd.Flags().Var(&retention, "retention", "how long a row stays after its key became free, or its lease expired; at least "+usualTTL.String())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func plural(rows int64) string {
	if rows == 1 {
		return "row"
	}
	return "rows"
}

// sweepStore makes the pass.
func sweepStore(ctx context.Context, o *opened, retention time.Duration) (sweepJSON, error) {
	j := sweepJSON{Retention: retention.Seconds()}
	s, can := o.driver.(storeurl.Sweeper)
	if !can {
		j.ByItself = true
		return j, o.usable(ctx)
	}
	began := time.Now()
	rows, lag, err := s.Clean(ctx, retention)
	seconds := func(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }
	j.Removed, j.Lag, j.Took = rows, seconds(lag), seconds(time.Since(began))
	switch {
	case errors.Is(err, dibs.ErrBusy):
		return j, exit.With(exit.Busy, fmt.Errorf("%s; removed %d %s before", o.text(err), rows, plural(rows)))
	case err != nil && rows > 0:
		return j, o.fail(fmt.Errorf("%w; removed %d %s before", err, rows, plural(rows)))
	case err != nil:
		return j, o.fail(err)
	}
	return j, nil
}

// untilSignalled returns a context that ends with a signal by which somebody ends a command, and what tells which that was, 0 for none: a pass that is cut
// off would keep its turn. HUP and INT stay ignored if they were from the start (nohup).
func untilSignalled(ctx context.Context) (context.Context, func() syscall.Signal) {
	ctx, cancel := context.WithCancel(ctx)
	caught := signals.Early()
	var came atomic.Int64
	signals.Catch(caught, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		if sig, ok := (<-caught).(syscall.Signal); ok {
			came.Store(int64(sig))
		}
		cancel()
	}()
	return ctx, func() syscall.Signal { return syscall.Signal(came.Load()) }
}

// usable is an error where the store cannot be used at all.
func (o *opened) usable(ctx context.Context) error {
	if err := o.Ping(ctx); err != nil {
		return o.fail(err)
	}
	return nil
}
