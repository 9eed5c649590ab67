package dibs_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsmem"
	"github.com/dibs-go/dibs/internal/hooked"
)

// house is a Locker on a memory store, with what it logged and told.
type house struct {
	*dibs.Locker
	store  *dibsmem.Store
	driver *hooked.Driver

	mu     sync.Mutex
	logs   []string
	events []string
	last   map[string]dibs.Event
}

// bubble runs a test in a synctest bubble, with a Locker that must be gone without a trace in the end.
func bubble(t *testing.T, cfg dibs.Config, test func(t *testing.T, h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := open(t, dibsmem.New(), cfg)
		test(t, h)
		if err := h.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

func open(t *testing.T, store *dibsmem.Store, cfg dibs.Config) *house {
	t.Helper()
	h := &house{store: store, driver: hooked.New(store), last: map[string]dibs.Event{}}
	cfg.Logger = h.logger()
	hook := func(name string) func(dibs.Event) {
		return func(e dibs.Event) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.events = append(h.events, name)
			h.last[name] = e
		}
	}
	cfg.Events = dibs.Events{
		Acquired: hook("acquired"), Waited: hook("waited"), Renewed: hook("renewed"), RenewalRefused: hook("refused"),
		Lost: hook("lost"), MaxHold: hook("max hold"), HoldAlarm: hook("hold alarm"), Released: hook("released"),
		LoadAdvice: hook("load advice"),
	}
	l, err := dibs.New(h.driver, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.Locker = l
	return h
}

func (h *house) logger() *slog.Logger { return slog.New(slog.NewTextHandler(h, nil)) }

// Write takes the log.
func (h *house) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.logs = append(h.logs, string(p))
	return len(p), nil
}

// heard returns the events so far, but not the renewals.
func (h *house) heard() string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	var names []string
	for _, n := range h.events {
		if n != "renewed" {
			names = append(names, n)
		}
	}
	return strings.Join(names, ", ")
}

func (h *house) event(name string) dibs.Event {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last[name]
}

func (h *house) logged(text string) int {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, l := range h.logs {
		if strings.Contains(l, text) {
			n++
		}
	}
	return n
}

func (h *house) take(t *testing.T, opts ...dibs.Option) (*dibs.Lock, context.Context) {
	t.Helper()
	lock, ctx, err := h.Acquire(context.Background(), "k", opts...)
	if err != nil {
		t.Fatal(err)
	}
	return lock, ctx
}

// left is how long the store still has the key taken, 0 if it is free.
func (h *house) left(t *testing.T, key string) time.Duration {
	t.Helper()
	infos, err := open(t, h.store, dibs.Config{}).Locks(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range infos {
		if i.Key == key {
			return i.ExpiresIn
		}
	}
	return 0
}

// want requires that err is (or, with !, is not) each of the targets.
func want(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("got %v, want %v", err, target)
		}
	}
}

func wantNot(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if errors.Is(err, target) {
			t.Errorf("got %v, which should not be %v", err, target)
		}
	}
}
