package dibs

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs/dibsmem"
	"github.com/dibs-go/dibs/internal/outbox"
)

// TestALockIsToldOfFromItsBeginningToItsEnd, or not at all, when the functions do not keep up; but its loss is told for long.
func TestALockIsToldOfFromItsBeginningToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		note := func(what string) func(Event) { return func(e Event) { told = append(told, what+" "+e.Key) } }
		over := make(chan struct{})
		store := dibsmem.New()
		l, err := New(store, &Config{TTL: time.Second, HoldAlarm: 20 * time.Second, Logger: slog.New(slog.DiscardHandler), Events: Events{
			Acquired: func(e Event) { note("acquired")(e); <-over }, Waited: note("waited"), Released: note("released"),
			Lost: note("lost"), MaxHold: note("max hold"), HoldAlarm: note("alarm"),
		}})
		if err != nil {
			t.Fatal(err)
		}
		take := func(key string, opts ...Option) *Lock {
			lock, _, err := l.Acquire(t.Context(), key, opts...)
			if err != nil {
				t.Fatal(err)
			}
			return lock
		}
		fill := func(r outbox.Rank) {
			for l.outbox.Post(r, func() {}) {
			}
		}
		ends := func(locks ...*Lock) {
			for _, lock := range locks {
				store.Expire(lock.Key())
			}
			time.Sleep(time.Second)
			for _, lock := range locks {
				if err := lock.Release(); !errors.Is(err, ErrLost) && !errors.Is(err, ErrMaxHold) {
					t.Errorf("%s: %v", lock.Key(), err)
				}
			}
		}
		one, two := take("heard 1"), take("heard 2", MaxHold(30*time.Second))
		fill(outbox.Frequent)
		three := take("heard 3")
		fill(outbox.Usual)
		four := take("unheard 1")
		time.Sleep(25 * time.Second)
		ends(one, four)
		five := take("unheard 2")
		fill(outbox.Grave)
		time.Sleep(10 * time.Second)
		ends(two, three, five)
		close(over)
		if err := l.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		want := []string{
			"waited heard 1", "acquired heard 1", "waited heard 2", "acquired heard 2", "acquired heard 3",
			"alarm heard 1", "alarm heard 2", "alarm heard 3", "alarm unheard 1", "lost heard 1", "lost unheard 1", "released heard 1",
			"max hold heard 2", "lost heard 3", "released heard 2", "released heard 3",
		}
		for _, all := range []*[]string{&told, &want} {
			slices.Sort(*all) // leases that end at the same moment end in any order
		}
		if !slices.Equal(told, want) {
			t.Errorf("told %q\nwant %q", told, want)
		}
	})
}

// TestReentriesLeaveNothingBehind once they were released, and those that come in the moment of the end share it.
func TestReentriesLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := New(dibsmem.New(), nil)
		if err != nil {
			t.Fatal(err)
		}
		lock, work, err := l.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		var inner []*Lock
		for range 100 {
			again, _, err := l.Acquire(context.WithoutCancel(work), "k", Reenter())
			if err != nil {
				t.Fatal(err)
			}
			inner = append(inner, again)
		}
		if n := len(lock.section.inner); n != len(inner) {
			t.Errorf("%d re-entries are known of %d", n, len(inner))
		}
		for _, again := range inner {
			if err := again.Release(); err != nil {
				t.Error(err)
			}
		}
		if n := len(lock.section.inner); n != 0 {
			t.Errorf("%d re-entries are left", n)
		}
		lock.section.stop(ErrLost)
		lock.section.stop(ErrReleased)
		again, ended := lock.section.enterAgain(context.Background(), "k")
		if cause := context.Cause(ended); cause != ErrLost {
			t.Errorf("ended by %v", cause)
		}
		for _, lock := range []*Lock{again, lock} {
			if err := lock.Release(); err != nil {
				t.Error(err)
			}
		}
		if again, _ := lock.section.enterAgain(context.Background(), "k"); again != nil {
			t.Error("a section that is over was entered again")
		}
		if err := l.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
