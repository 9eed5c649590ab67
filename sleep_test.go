package dibs

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/dibsmem"
	"github.com/dibs-go/dibs/internal/hooked"
)

// TestB05_ASleepDuringAnAcquire: the machine sleeps with the store's answer on its way, and the lease may have expired. No work begins under it.
func TestB05_ASleepDuringAnAcquire(t *testing.T) {
	for name, c := range map[string]struct {
		opts []Option
		lost bool // another process has taken the key
		want error
	}{
		"a wait":                      {lost: true},
		"a short wait":                {opts: []Option{MaxWait(time.Second)}, lost: true, want: ErrBusy},
		"a try":                       {opts: []Option{MaxWait(0)}, lost: true, want: ErrUnavailable},
		"a wait, and the lease stood": {},
		"a try, and the lease stood":  {opts: []Option{MaxWait(0)}, want: ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []string
				note := func(what string) func(Event) { return func(Event) { told = append(told, what) } }
				store := dibsmem.New()
				driver := hooked.New(store)
				l, err := New(driver, &Config{Logger: slog.New(slog.DiscardHandler), Events: Events{
					Acquired: note("acquired"), Lost: note("lost"), Released: note("released"),
				}})
				if err != nil {
					t.Fatal(err)
				}
				awoke := time.Now().Add(time.Millisecond)
				l.keeper.Wall = func(at time.Time) time.Time {
					if at.Before(awoke) {
						return at
					}
					return at.Add(time.Hour)
				}
				driver.OnAcquire(func(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
					driver.OnAcquire(nil)
					r, err := store.Acquire(ctx, p)
					time.Sleep(time.Until(awoke))
					if c.lost {
						store.Expire("k")
						if r, err := store.Acquire(ctx, dibsdriver.AcquireParams{Key: "k", Owner: "B", TTL: 5 * time.Second}); err != nil || !r.Acquired {
							t.Error(r, err)
						}
					}
					return r, err
				})
				start := time.Now()
				lock, work, err := l.Acquire(t.Context(), "k", c.opts...)
				if !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				if err == nil {
					if took := time.Since(start); c.lost != (took > 4*time.Second) || took > 10*time.Second {
						t.Errorf("taken after %s", took)
					}
					if lock.Err() != nil || work.Err() != nil {
						t.Error(lock.Err(), work.Err())
					}
					if err := lock.Release(); err != nil {
						t.Error(err)
					}
				}
				if err := l.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
				if got := strings.Join(told, " "); got != "acquired released" && (c.want == nil || got != "") {
					t.Errorf("told: %s", got)
				}
				time.Sleep(10 * time.Second)
				if left, err := store.List(context.Background(), ""); err != nil || len(left) != 0 {
					t.Errorf("left behind: %v, %v", left, err)
				}
			})
		})
	}
}
