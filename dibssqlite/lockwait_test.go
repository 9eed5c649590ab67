package dibssqlite

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// TestContextEndsWhileLocked: another process keeps the file's write lock for long, and every call ends with its context, not applied.
func TestContextEndsWhileLocked(t *testing.T) {
	for _, mode := range []string{"open", "users", "rollback journal"} {
		t.Run(mode, func(t *testing.T) {
			goroutinesBack(t)
			path := tempFile(t)
			var d *Driver
			switch mode {
			case "open":
				d = open(t, path)
			case "users":
				d = New(raw(t, "file:"+path+"?_busy_timeout=60000&_journal_mode=WAL"), nil)
			case "rollback journal":
				d = New(raw(t, "file:"+path+"?_busy_timeout=60000&_journal_mode=DELETE"), nil)
			}
			defer d.Close()
			owner, _ := take(t, d, "mine", time.Hour)
			if answers, err := d.Renew(t.Context(), []dibsdriver.Renewal{{Key: "mine", Owner: owner, TTL: time.Hour}}); err != nil {
				t.Fatal(answers, err)
			}
			p := startRole(t, nil, "keep-locked", path)
			p.line(t)

			calls := map[string]func(context.Context) error{
				"acquire": func(ctx context.Context) error {
					_, err := d.Acquire(ctx, dibsdriver.AcquireParams{Key: "new", Owner: newOwner(), TTL: time.Hour})
					return err
				},
				"renew": func(ctx context.Context) error {
					_, err := d.Renew(ctx, []dibsdriver.Renewal{{Key: "mine", Owner: owner, TTL: time.Hour}})
					return err
				},
				"release": func(ctx context.Context) error {
					return d.Release(ctx, dibsdriver.ReleaseParams{Key: "mine", Owner: owner})
				},
				"break": func(ctx context.Context) error {
					_, err := d.Break(ctx, dibsdriver.BreakParams{Key: "mine"})
					return err
				},
				"leave": func(ctx context.Context) error {
					return d.Leave(ctx, dibsdriver.WaitParams{Key: "mine", Waiter: "w"})
				},
				"ping": d.Ping,
			}
			for name, call := range calls {
				var late time.Duration
				var err error
				for range 5 { // a busy machine may be late by itself
					ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
					err = call(ctx)
					deadline, _ := ctx.Deadline()
					late = time.Since(deadline)
					cancel()
					if late <= dibsdriver.Grace {
						break
					}
				}
				if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, dibsdriver.ErrUnavailable) ||
					dibsdriver.FateOf(err) != dibsdriver.FateNotApplied || !strings.Contains(err.Error(), path) {
					t.Errorf("%s: %v (fate %v)", name, err, dibsdriver.FateOf(err))
				}
				if late > dibsdriver.Grace {
					t.Errorf("%s returned %v after its context's end", name, late)
				}
			}
			p.kill()
			// Only what was there before is there.
			records, err := d.List(t.Context(), "")
			if err != nil || len(records) != 1 || records[0].Key != "mine" {
				t.Fatalf("%+v, %v", records, err)
			}
			release(t, d, "mine", owner)
		})
	}
}

// TestRenewalGoesFirst: with many acquires waiting for the file, a renewal is the next to get it.
func TestRenewalGoesFirst(t *testing.T) {
	var turn turnstile
	ctx := t.Context()
	if err := turn.enter(ctx, false); err != nil {
		t.Fatal(err)
	}
	order := make(chan string, 3)
	waiting := func(n int) func() bool {
		return func() bool {
			turn.mu.Lock()
			defer turn.mu.Unlock()
			return len(turn.urgent)+len(turn.others) == n
		}
	}
	for i, name := range []string{"first", "second", "renewal"} {
		go func() {
			_ = turn.enter(ctx, name == "renewal")
			order <- name
			turn.leave()
		}()
		eventually(t, "it waits", waiting(i+1))
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := turn.enter(cancelled, true); err == nil {
		t.Error("entered after the context's end")
	}
	if err := turn.giveWay(ctx); err != nil {
		t.Fatal(err)
	}
	if got := <-order; got != "renewal" {
		t.Error(got, "went first")
	}
	turn.leave()
	if a, b := <-order, <-order; a != "first" || b != "second" {
		t.Error("order:", a, b)
	}
	eventually(t, "free again", func() bool {
		turn.mu.Lock()
		defer turn.mu.Unlock()
		return !turn.taken
	})
}

// TestTurnIsPassedOn, also when it comes in the moment in which its waiter gives up.
func TestTurnIsPassedOn(t *testing.T) {
	var turn turnstile
	for range 200 {
		_ = turn.enter(t.Context(), false)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- turn.enter(ctx, false) }()
		eventually(t, "it waits", func() bool {
			turn.mu.Lock()
			defer turn.mu.Unlock()
			return len(turn.others) == 1
		})
		turn.mu.Lock() // it cannot leave the queue before the turn comes
		cancel()
		close(turn.others[0])
		turn.others = nil
		turn.mu.Unlock()
		if <-ended == nil {
			turn.leave()
		}
		if turn.taken {
			t.Fatal("nobody has the turn and nobody can get it")
		}
	}
}

// TestCloseEndsWaiting: Close does not wait for a locked file.
func TestCloseEndsWaiting(t *testing.T) {
	goroutinesBack(t)
	path := tempFile(t)
	d := open(t, path)
	if err := d.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := startRole(t, nil, "keep-locked", path)
	p.line(t)
	ended := make(chan error)
	for range 3 {
		go func() {
			_, err := d.Acquire(context.Background(), dibsdriver.AcquireParams{Key: "k", Owner: newOwner(), TTL: time.Hour})
			ended <- err
		}()
	}
	time.Sleep(20 * time.Millisecond)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := <-ended; !errors.Is(err, dibsdriver.ErrClosed) || dibsdriver.FateOf(err) != dibsdriver.FateNotApplied {
			t.Error(err)
		}
	}
	if err := d.Ping(t.Context()); !errors.Is(err, dibsdriver.ErrClosed) {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error("second Close:", err)
	}
}
