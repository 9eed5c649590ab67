//go:build unix

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/cmd/dibs/internal/durations"
	"github.com/dibs-go/dibs/cmd/dibs/internal/exit"
	"github.com/dibs-go/dibs/cmd/dibs/internal/nest"
	"github.com/dibs-go/dibs/cmd/dibs/internal/runner"
	"github.com/dibs-go/dibs/cmd/dibs/internal/signals"
)

// interruptLimit is how long the end may take for one whom a signal has told to end, who is to be gone within a second.
const interruptLimit = 800 * time.Millisecond

// requestLimit is how long the store has for each answer: the library's default, made known here.
const requestLimit = 5 * time.Second

// run is dibs run. Its status is COMMAND's, unless there is an error.
func run(cmd *cobra.Command, f *runFlags, args []string) (int, error) {
	// First of all, so that no signal from now on ends this process without a word, or leaves something behind.
	caught := signals.Early()
	signals.Catch(caught, signals.Ending...)
	// Writing to a stderr that was closed must not end it either.
	signals.Catch(caught, syscall.SIGPIPE)

	if err := f.settle(cmd, args); err != nil {
		return 0, err
	}
	r, err := runner.Prepare(runner.Command{Args: f.command, Env: nest.Without(os.Environ()), KillAfter: f.killAfter.D})
	if err != nil {
		return 0, exit.With(exit.NotRunnable, err)
	}
	defer r.Close()
	return underLock(f, r, caught)
}

// underLock takes the lock and runs the command.
func underLock(f *runFlags, r *runner.Runner, caught chan os.Signal) (int, error) {
	renewed := make(chan struct{}, 1)
	o, err := f.open(&dibs.Config{
		TTL:       f.ttl.D,
		MaxHold:   max(f.maxHold.D, 0),
		HoldAlarm: -1,

		RequestTimeout: requestLimit,
		Events: dibs.Events{Renewed: func(dibs.Event) {
			select {
			case renewed <- struct{}{}:
			default:
			}
		}},
	})
	if err != nil {
		return 0, err
	}
	w := waitFor(caught)
	lock, held, err := acquire(w.ctx, o, f)
	if sig := w.stop(); sig != 0 {
		if err == nil {
			_ = lock.Release() // what it cannot release now, Shutdown or the TTL will
		}
		o.close(interruptLimit)
		return 0, interrupted(f.key, sig)
	}
	if err != nil {
		o.close(closeLimit)
		return 0, err
	}
	outcome, err := r.Run(&runner.Job{
		Vars:    nest.FromEnv(os.Getenv).Vars(f.key, lock.Token()),
		Lease:   lock,
		Renewed: renewed,
		Held:    held,
		TooLong: dibs.ErrMaxHold,
		Signals: caught,
	})
	if err != nil {
		outcome = runner.Outcome{Kind: runner.NotRun, Status: exit.NotRunnable, Message: err.Error()}
	}
	return report(f, o, lock.Token(), outcome, release(o, lock, outcome))
}

// release gives the lock back once nothing of COMMAND is left.
func release(o *opened, lock *dibs.Lock, outcome runner.Outcome) error {
	if outcome.Alive || len(outcome.Escaped) > 0 {
		return nil // something may still be at work: the key must not go to another before the lease ends
	}
	if outcome.Kind != runner.Lost || outcome.ByItself {
		err := lock.Release()
		o.close(closeLimit)
		return err
	}
	// The lease is about to end by itself, and mostly because the store does not answer: it is given the time of a few answers.
	released := make(chan error, 1)
	go func() { released <- lock.Release() }()
	select {
	case <-released:
	case <-time.After(interruptLimit):
	}
	o.close(interruptLimit)
	return nil
}

// acquire waits for the key.
func acquire(ctx context.Context, o *opened, f *runFlags) (*dibs.Lock, context.Context, error) {
	if err := refuseNested(ctx, o, f.key); err != nil {
		return nil, nil, err
	}
	opts := []dibs.Option{dibs.MinHold(f.minHold.D), dibs.Note(f.note)}
	if f.wait.D != durations.Never {
		opts = append(opts, dibs.MaxWait(f.wait.D))
	}
	lock, held, err := o.Acquire(ctx, f.key, opts...)
	if busy, ok := errors.AsType[*dibs.BusyError](err); ok {
		return nil, nil, &exit.Error{Status: int(f.busyStatus), Err: busyLine(busy, o, f),
			// Who asks for a status of his own and for silence expects a busy key now and then, and no mail by cron about it.
			Silent: f.quiet && f.busyStatus != exit.Busy}
	}
	if err != nil {
		return nil, nil, o.nothingRun(f.key, err)
	}
	return lock, held, nil
}

// nothingRun is the error of a run that did not get to its command.
func (o *opened) nothingRun(key string, err error) error {
	if !strings.Contains(err.Error(), strconv.Quote(key)) {
		err = fmt.Errorf("%q: %w", key, err)
	}
	failed := o.fail(err)
	return exit.Errorf(exit.Status(failed), "%w; nothing was run", failed)
}

// refuseNested finds out whether a run around this one holds the key, for which this one would wait for ever.
func refuseNested(ctx context.Context, o *opened, key string) error {
	chain := nest.FromEnv(os.Getenv)
	if !chain.Has(key) {
		return nil
	}
	locks, err := o.Locks(ctx, key)
	if err != nil {
		return o.nothingRun(key, err)
	}
	for _, l := range locks {
		if l.Key == key && chain.Holds(key, l.Token) {
			return exit.Errorf(exit.Usage, "%q is held by a dibs run around this one (%s), and waiting for it would never end: leave the inner dibs run out, or take another key", key, l.Holder)
		}
	}
	return nil
}

func busyLine(busy *dibs.BusyError, o *opened, f *runFlags) error {
	waited := ""
	if f.wait.D > 0 {
		waited = fmt.Sprintf(" after a wait of %s", f.wait.D)
	}
	h := busy.Holder
	if h.Holder == "" {
		return fmt.Errorf("%q is busy%s: others stand in line for it on %s; nothing was run", f.key, waited, o.Name)
	}
	note := ""
	if h.Note != "" {
		note = fmt.Sprintf(" (%s)", h.Note)
	}
	return fmt.Errorf("%q is busy%s: held by %s%s, %s left unless renewed, on %s; nothing was run",
		f.key, waited, h.Holder, note, busy.Left.Round(100*time.Millisecond), o.Name)
}

func interrupted(key string, sig syscall.Signal) error {
	return exit.Errorf(exit.Signal+int(sig), "%q: %s came before COMMAND was started; nothing was run", key, unix.SignalName(sig))
}
