package dibssqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// watched is a wait for a key that another has, on a file that nothing was written to for long.
func watched(t *testing.T, d *Driver, ttl time.Duration) (w *watch, owner string) {
	t.Helper()
	owner, _ = take(t, d, "k", ttl)
	ask(t, d, "k", "w")
	w = &watch{d: d, p: dibsdriver.WaitParams{Key: "k", Waiter: "w"}}
	if w.free(t) {
		t.Fatal("a key that is held")
	}
	quiet(t, d)
	if w.free(t) {
		t.Fatal("a key that is held")
	}
	return w, owner
}

func (w *watch) free(t *testing.T) bool {
	t.Helper()
	free, err := w.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return free
}

// quiet lets it seem long ago that anything was written.
func quiet(t *testing.T, d *Driver) {
	t.Helper()
	for _, file := range []string{d.path, d.path + "-wal"} {
		if err := os.Chtimes(file, time.Time{}, time.Now().Add(-time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAWaitLooksIntoTheFileWhenItWasWrittenTo, and not otherwise.
func TestAWaitLooksIntoTheFileWhenItWasWrittenTo(t *testing.T) {
	d := open(t, tempFile(t))
	w, owner := watched(t, d, time.Hour)
	last := w.at
	for range 1000 {
		if w.free(t) {
			t.Fatal("a key that is held")
		}
		if w.at != last && w.at.Sub(last) < lookAnyway {
			t.Fatalf("looked again after %s", w.at.Sub(last))
		}
		last = w.at
	}
	other := open(t, d.path)
	release(t, other, "k", owner)
	if !w.free(t) {
		t.Error("a key that was released")
	}
}

// TestAWaitMissesNothing: a commit that became visible long after it was written.
func TestAWaitMissesNothing(t *testing.T) {
	d := open(t, tempFile(t))
	w, owner := watched(t, d, time.Hour)
	release(t, d, "k", owner)
	quiet(t, d)
	w.seen, w.at = d.written(), time.Now().Add(-lookAnyway)
	if !w.free(t) {
		t.Error("a key that was released")
	}
}

// TestAWaitSeesALeaseExpire, though nothing is written then.
func TestAWaitSeesALeaseExpire(t *testing.T) {
	d := open(t, tempFile(t))
	const ttl = 400 * time.Millisecond
	began := time.Now()
	w, _ := watched(t, d, ttl)
	for !w.free(t) {
		if time.Since(began) > ttl+5*time.Second {
			t.Fatal("the lease has expired")
		}
		w.at = time.Now() // not for having waited
	}
	if took := time.Since(began); took < ttl {
		t.Errorf("free after %s", took)
	}
}

// TestAWaitIsForItsTurn: a key that is free is not there for who stands behind others, until they are known to be dead.
func TestAWaitIsForItsTurn(t *testing.T) {
	d := open(t, tempFile(t))
	owner, _ := take(t, d, "k", time.Hour)
	ask(t, d, "k", "first") // and never again
	w := &watch{d: d, p: dibsdriver.WaitParams{Key: "k", Waiter: "w"}}
	ask(t, d, "k", "w")
	release(t, d, "k", owner)
	for began := time.Now(); !w.free(t); {
		quiet(t, d)
		if time.Since(began) > dibsdriver.QueueGrace {
			t.Fatal("the dead are still in the way")
		}
		time.Sleep(watchMin)
	}
	if r, _ := ask(t, d, "k", "w"); !r.Acquired {
		t.Errorf("told that it is free, and %+v", r)
	}
}

// TestAWaitEndsWithTheDriver.
func TestAWaitEndsWithTheDriver(t *testing.T) {
	d := open(t, tempFile(t))
	other := open(t, d.path)
	take(t, other, "k", time.Hour)
	ask(t, d, "k", "w")
	ended := make(chan error, 1)
	go func() { ended <- d.Wait(t.Context(), dibsdriver.WaitParams{Key: "k", Waiter: "w"}) }()
	select {
	case err := <-ended:
		t.Fatal(err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, dibsdriver.ErrClosed) {
		t.Error(err)
	}
}

// TestAWaitThroughALink: SQLite's other files are beside what the link leads to.
func TestAWaitThroughALink(t *testing.T) {
	path := tempFile(t)
	other := open(t, path)
	owner, _ := take(t, other, "k", time.Hour)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	d := open(t, link)
	ask(t, d, "k", "w")
	w := &watch{d: d, p: dibsdriver.WaitParams{Key: "k", Waiter: "w"}}
	quiet(t, other)
	if w.free(t) {
		t.Fatal("a key that is held")
	}
	release(t, other, "k", owner)
	w.at = time.Now() // not for having waited
	if !w.free(t) {
		t.Error("a key that was released")
	}
}
