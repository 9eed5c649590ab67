package dibs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs/dibsmem"
)

// TestNothingIsToldAfterTheEnd: an answer to a renewal, or an alarm, that was on its way when the section ended.
func TestNothingIsToldAfterTheEnd(t *testing.T) {
	ends := map[string]func(*Lock){
		"released": func(lock *Lock) { _ = lock.Release() },
		"lost":     func(lock *Lock) { lock.section.ended.Add(1); lock.section.LeaseEnded(ErrLost) },
		"max hold": func(lock *Lock) { <-lock.section.ctx.Done() },
	}
	for name, end := range ends {
		synctest.Test(t, func(t *testing.T) {
			var told []string
			note := func(what string) func(Event) { return func(Event) { told = append(told, what) } }
			l, err := New(dibsmem.New(), &Config{TTL: time.Second, HoldAlarm: time.Hour, Events: Events{
				Renewed: note("renewed"), HoldAlarm: note("alarm"), Lost: note("lost"), MaxHold: note("max hold"), Released: note("released"),
			}})
			if err != nil {
				t.Fatal(err)
			}
			lock, _, err := l.Acquire(t.Context(), "k", MaxHold(10*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			lock.section.LeaseRenewed()
			lock.section.HoldAlarm(time.Minute)
			end(lock)
			lock.section.LeaseRenewed()
			lock.section.HoldAlarm(time.Minute)
			synctest.Wait()
			told = slices.DeleteFunc(told[1:], func(what string) bool { return what == "renewed" }) // the keeper's own
			if want := []string{"alarm", name}; !slices.Equal(told, want) {
				t.Errorf("told %q, want %q", told, want)
			}
			if err := lock.Release(); err != nil && !errors.Is(err, ErrReleased) && !errors.Is(err, ErrMaxHold) && !errors.Is(err, ErrLost) {
				t.Error(err)
			}
			if err := l.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAcquiredIsToldFirst, also of a section that is over at once.
func TestAcquiredIsToldFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		note := func(what string) func(Event) { return func(Event) { told = append(told, what) } }
		l, err := New(dibsmem.New(), &Config{Logger: slog.New(slog.DiscardHandler), Events: Events{
			Waited: note("waited"), Acquired: note("acquired"), MaxHold: note("max hold"), Released: note("released"),
		}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 300 {
			told = nil
			lock, _, err := l.Acquire(t.Context(), fmt.Sprint("k", i), MaxHold(1))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if err := lock.Release(); !errors.Is(err, ErrMaxHold) {
				t.Error(err)
			}
			synctest.Wait()
			if want := []string{"waited", "acquired", "max hold", "released"}; !slices.Equal(told, want) {
				t.Fatalf("told %q, want %q", told, want)
			}
		}
		if err := l.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
