package dibsdrivertest

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// env is what a case works with: an empty store of its own.
type env struct {
	*testing.T
	f     *Factory
	store Store
	// exact: time stands still while anything can run, so that what is due happens on the dot.
	exact bool
	// ttl is a short TTL; in real time one that a loaded machine does not lose by itself.
	ttl time.Duration
	// slack is how late a thing may be seen that happened in time. In real time it is what a loaded machine needs: that the engine is
	// punctual is shown in the bubble, and there is much to see even so, as what a case waits for would else not happen for a minute, or never.
	slack time.Duration
}

func newEnv(t *testing.T, f *Factory, exact bool) *env {
	label(t)
	if !exact {
		machine.watch()
	}
	e := &env{T: t, f: f, store: f.New(t), exact: exact, ttl: 2500 * time.Millisecond, slack: 3*time.Second + f.trips(10)}
	e.ttl += f.trips(20) // a trust window has room for a new connection, which takes five or six of them
	if exact {
		e.ttl = time.Second
		e.slack = 30 * time.Millisecond // the store's own granularity: polls
	}
	d := e.store.Driver(t)
	defer d.Close()
	if limits, err := d.Limits(); err != nil {
		t.Fatal(err)
	} else if limits.SessionTTL > 0 {
		e.ttl = limits.SessionTTL
	}
	e.warmUp(d)
	return e
}

// trips is the time of n round trips.
func (f *Factory) trips(n int) time.Duration { return time.Duration(n) * f.RoundTrip }

// warmUp lets the store make its tables: that is not what is measured.
func (e *env) warmUp(d dibsdriver.Driver) {
	p := e.params("warm up")
	e.take(d, p)
	e.ok(d.Release(e.Context(), dibsdriver.ReleaseParams{Key: p.Key, Owner: p.Owner}), "release")
}

// connect lets a Locker do what it does once, where that takes a while: it is not what is measured.
func (e *env) connect(l *dibs.Locker) {
	e.Helper()
	if e.f.RoundTrip > 0 {
		e.free(l, "connect", e.slack)
	}
}

// margin is the engine's default margin of the short TTL.
func (e *env) margin() time.Duration { return e.ttl / 10 }

// driver returns a driver of its own, closed at the end.
func (e *env) driver() dibsdriver.Driver {
	d := e.store.Driver(e)
	e.Cleanup(func() { d.Close() })
	return d
}

// faulty returns a driver of its own that can be made to go wrong.
func (e *env) faulty() *FaultyDriver { return Faulty(e.driver()) }

// locker returns a Locker on a driver of its own: another process, as far as the store knows.
func (e *env) locker() *dibs.Locker { return e.lockerOn(e.driver(), dibs.Config{}) }

func (e *env) lockerWith(cfg dibs.Config) *dibs.Locker { return e.lockerOn(e.driver(), cfg) }

// faultyLocker returns a Locker and the driver under it.
func (e *env) faultyLocker(cfg dibs.Config) (*dibs.Locker, *FaultyDriver) {
	f := e.faulty()
	l := e.lockerOn(f.Driver(), cfg)
	e.Cleanup(f.Heal) // before the shutdown
	return l, f
}

func (e *env) lockerOn(d dibsdriver.Driver, cfg dibs.Config) *dibs.Locker {
	e.Helper()
	l, err := dibs.New(d, e.config(cfg))
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() {
		patience := 300 * time.Millisecond
		if e.exact {
			patience = time.Minute // costs nothing, and a bubble must not end before all that is in it
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		l.Shutdown(ctx) // of locks that a case has left, it complains
	})
	return l
}

func (e *env) config(cfg dibs.Config) *dibs.Config {
	if cfg.TTL == 0 {
		cfg.TTL = e.ttl
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &cfg
}

// hold takes a key that must be free.
func (e *env) hold(l *dibs.Locker, key string, opts ...dibs.Option) (*dibs.Lock, context.Context) {
	e.Helper()
	opts = append([]dibs.Option{dibs.MaxWait(20 * time.Second)}, opts...)
	for tries := 0; ; tries++ {
		lock, work, err := l.Acquire(e.Context(), key, opts...)
		if err == nil {
			return lock, work
		}
		// A loaded machine may be too slow for a short trust window; that is not what those who come here are about.
		if e.exact || tries == 3 || !errors.Is(err, dibs.ErrUnavailable) {
			e.Fatalf("acquiring %q: %v", key, err)
		}
	}
}

// lasting are the terms of a lease that no stall of a loaded machine ends, where each call has its own.
func (e *env) lasting() []dibs.Option {
	if e.f.session(e) {
		return nil
	}
	return []dibs.Option{dibs.TTL(longTTL)}
}

// free requires that the key can be had within a time, and leaves it free. It returns the token it was given.
func (e *env) free(l *dibs.Locker, key string, within time.Duration) int64 {
	e.Helper()
	end := time.Now().Add(within)
	lock, _, err := l.Acquire(e.Context(), key, dibs.MaxWait(within))
	for !e.exact && errors.Is(err, dibs.ErrUnavailable) && time.Now().Before(end) { // see hold
		lock, _, err = l.Acquire(e.Context(), key, dibs.MaxWait(time.Until(end)))
	}
	if err != nil {
		e.Fatalf("%q is not free within %s: %v", key, within, err)
	}
	if err := lock.Release(); err != nil {
		e.Fatalf("releasing %q: %v", key, err)
	}
	return lock.Token()
}

// taken is what came of a wait.
type taken struct {
	lock *dibs.Lock
	at   time.Time
	err  error
}

// waits waits for a key in a goroutine.
func (e *env) waits(l *dibs.Locker, key string, opts ...dibs.Option) <-chan taken {
	c := make(chan taken, 1)
	opts = append([]dibs.Option{dibs.MaxWait(40 * time.Second)}, opts...)
	go func() {
		lock, _, err := l.Acquire(background(), key, opts...)
		c <- taken{lock, time.Now(), err}
	}()
	return c
}

// got is what a wait must have brought.
func (e *env) got(c <-chan taken, within time.Duration) taken {
	e.Helper()
	select {
	case n := <-c:
		e.ok(n.err, "waiting for the key")
		return n
	case <-time.After(within):
		e.Fatalf("the key was not had within %s", within)
		panic("unreachable")
	}
}

// busy requires that somebody has the key.
func (e *env) busy(l *dibs.Locker, key string) *dibs.BusyError {
	e.Helper()
	lock, _, err := l.TryAcquire(e.Context(), key)
	if err == nil {
		lock.Release()
		e.Fatalf("%q was not busy", key)
	}
	busy, ok := errors.AsType[*dibs.BusyError](err)
	if !ok || !errors.Is(err, dibs.ErrBusy) {
		e.Fatalf("%q: want ErrBusy, got %v", key, err)
	}
	return busy
}

// until waits for a condition, which must come true in time.
func (e *env) until(within time.Duration, what string, cond func() bool) {
	e.Helper()
	end := time.Now().Add(within)
	for pause := 2 * time.Millisecond; !cond(); pause = min(pause*5/4, 25*time.Millisecond) { // each look is work for a busy machine
		if time.Now().After(end) {
			e.Fatalf("after %s still not: %s", within, what)
		}
		time.Sleep(pause)
	}
}

// throughout requires a condition for a time.
func (e *env) throughout(d time.Duration, what string, cond func() bool) {
	e.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if !cond() {
			e.Fatalf("not any more: %s", what)
		}
	}
}

// is requires an error of a kind.
func (e *env) is(err, kind error, doing string) {
	e.Helper()
	if !errors.Is(err, kind) {
		e.Fatalf("%s: want %v, got %v", doing, kind, err)
	}
}

// isNot requires that an error is not of a kind.
func (e *env) isNot(err, kind error, doing string) {
	e.Helper()
	if errors.Is(err, kind) {
		e.Fatalf("%s: must not be %v: %v", doing, kind, err)
	}
}

func (e *env) ok(err error, doing string) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s: %v", doing, err)
	}
}

// took requires that something that began at start has just ended, not before least nor after most (and the slack).
func (e *env) took(start time.Time, least, most time.Duration, what string) {
	e.Helper()
	if d := time.Since(start); d < least || d > most+e.slack {
		e.Fatalf("%s took %s, want %s to %s", what, d, least, most)
	}
}

// ending tells when a context ended, by a goroutine that does nothing but watch it.
func ending(ctx context.Context) <-chan time.Time {
	c := make(chan time.Time, 1)
	context.AfterFunc(ctx, func() { c <- time.Now() })
	return c
}

// ended waits for the end of a work's context.
func (e *env) ended(c <-chan time.Time, within time.Duration) time.Time {
	e.Helper()
	select {
	case at := <-c:
		return at
	case <-time.After(within):
		e.Fatalf("the work's context did not end within %s", within)
		panic("unreachable")
	}
}

// receive is a receive that a test does not hang in.
func receive[T any](e *env, c <-chan T) T {
	e.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		e.Fatal("waited for a minute in vain")
		panic("unreachable")
	}
}

func background() context.Context { return context.Background() }
