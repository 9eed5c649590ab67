// Command nightly is a job that cron starts on every instance of a service at 02:00, and that must run once a night.
//
// Whoever is first takes the key and works; for all others the job is done. The clocks of the instances differ, and the job
// may take only a second: so it holds the key for ten minutes at least, or an instance that is late would run it again.
//
// The locks are kept in an SQLite file, which serves the processes of one machine. For several machines open another store; the rest
// stays as it is.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibssqlite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, filepath.Join(os.TempDir(), "nightly-locks.db"), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "nightly:", err)
		os.Exit(1)
	}
}

// run is one start of the job.
func run(ctx context.Context, path string, out io.Writer) (err error) {
	store, err := dibssqlite.Open(path, nil)
	if err != nil {
		return err
	}
	locker, err := dibs.New(store, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Shutdown(context.WithoutCancel(ctx))) }()

	ran, err := locker.TryDo(ctx, "nightly-report", func(ctx context.Context) error {
		return report(ctx, out)
	}, dibs.MinHold(10*time.Minute), dibs.Note("nightly report"))
	if err == nil && !ran {
		fmt.Fprintln(out, "another instance has it tonight")
	}
	return err
}

// report is the work. Its context ends when the lock is lost, or the process is told to stop.
func report(ctx context.Context, out io.Writer) error {
	for page := 1; page <= 3; page++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		fmt.Fprintf(out, "page %d\n", page)
	}
	return nil
}
