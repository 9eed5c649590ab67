// Command bench measures dibs beside other ways of locking on the same servers, in one run, and says which targets it meets. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/dibs-go/dibs/internal/testenv"
	"github.com/go-sql-driver/mysql"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	_ = mysql.SetLogger(&mysql.NopLogger{}) // it reports connections that end with their process
	if os.Getenv(workerEnv) != "" {
		return serve()
	}
	s, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	defer testenv.StopAll()
	r := &report{}
	for _, name := range s.stores {
		if err := measure(ctx, s, r, name); err != nil {
			r.problem("%v", err)
		}
	}
	r.judge()
	if s.json {
		err = r.writeJSON(os.Stdout)
	} else {
		err = r.write(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	if len(r.Problems) > 0 {
		return 1
	}
	return 0
}

// measure runs the workloads on one store. One that fails does not keep the others back.
func measure(ctx context.Context, s *settings, r *report, name string) (err error) {
	h, err := prepare(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	for _, w := range workloads {
		if !s.measures(w.name) || ctx.Err() != nil {
			continue
		}
		b := &bench{settings: s, report: r, host: h, workload: w.name}
		if err := w.run(ctx, b); err != nil {
			r.problem("%s on %s: %v", w.name, name, err)
		}
	}
	return ctx.Err()
}

// bench is one workload on one store.
type bench struct {
	*settings
	*report
	host     *host
	workload string
}

// workloads are all that is measured, in this order.
var workloads = []struct {
	name, title string
	run         func(context.Context, *bench) error
	columns     []column
}{
	{"one", "one: all workers want one key", one, oneColumns},
	{"different", "different: every worker has a key of its own; acquire and release in a loop", different, differentColumns},
	{"idle", "idle: one process waits for a key that another has had since it was free", idle, idleColumns},
	{"handoff", "handoff: from the start of the release to the return of the acquire in another process that was waiting", handoff, handoffColumns},
	{"leases", "leases: one process holds many", leases, leasesColumns},
	{"alone", "alone: acquire and release with nobody else there, in turns", alone, aloneColumns},
}
