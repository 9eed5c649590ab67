package dibsmysql

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

var quiet = slog.New(slog.DiscardHandler)

// reports collects what sweepers tell.
type reports struct {
	mu  sync.Mutex
	all []SweepReport
}

func (r *reports) add(report SweepReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, report)
}

func (r *reports) get() (passes int, rows int64, errs []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, report := range r.all {
		rows += report.Rows
		if report.Err != nil {
			errs = append(errs, report.Err)
		}
	}
	return len(r.all), rows, errs
}

// TestSweeperOfALocker: a Locker that opts in removes old rows from its first lock on until it is shut down, and nothing of it is left then.
func TestSweeperOfALocker(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		b.oldRows(t, "k", 120)
		before := runtime.NumGoroutine()
		db := opened(t, b.dsn(b.App, b.database, ""))
		var told reports
		l, err := dibs.New(New(db, &Config{Sweep: &SweepConfig{Every: minSweepEvery, Report: told.add, Logger: quiet}}), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Ping(within(t)); err != nil {
			t.Fatal(err)
		}
		if is := runtime.NumGoroutine(); is > before+10 || b.meta(t, "sweep") != 0 {
			t.Errorf("it swept before its first lock: %d goroutines, then %d", before, is)
		}
		lock, _, err := l.Acquire(within(t), "held")
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the rows are gone", func() bool { _, rows, _ := told.get(); return rows == 120 })
		if b.keys(t) != "held" {
			t.Errorf("left are %s", b.keys(t))
		}
		b.oldRows(t, "more", 3)
		eventually(t, "later ones, too", func() bool { _, rows, _ := told.get(); return rows == 123 })
		if err := lock.Verify(within(t)); err != nil {
			t.Error(err)
		}
		if err := errors.Join(lock.Release(), l.Shutdown(within(t))); err != nil {
			t.Error(err)
		}
		if _, _, errs := told.get(); len(errs) > 0 {
			t.Error(errs)
		}
		passes, _, _ := told.get()
		b.nothingOpen(t)
		db.Close()
		eventually(t, "goroutines are back", func() bool { return runtime.NumGoroutine() <= before })
		if after, _, _ := told.get(); after != passes {
			t.Errorf("%d passes, and %d more after the shutdown", passes, after-passes)
		}
	})
}

// TestSweeperOnePassForAll: however many processes sweep, there is one pass in the time, and each of them makes some.
func TestSweeperOnePassForAll(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		var told reports
		began := time.Now()
		for range 6 {
			d := New(b.pool(t, ""), &Config{Sweep: &SweepConfig{Every: minSweepEvery, Report: told.add, Logger: quiet}})
			defer d.Close()
			freed(t, d, "k")
			goroutines := runtime.NumGoroutine()
			for range 20 {
				freed(t, d, "k")
			}
			if is := runtime.NumGoroutine(); is > goroutines+10 {
				t.Errorf("%d goroutines after the first lock, %d after more", goroutines, is)
			}
		}
		const enough = 12
		eventually(t, "enough passes", func() bool { n, _, _ := told.get(); return n >= enough })
		n, _, errs := told.get()
		if most := int(time.Since(began)/minSweepEvery) + 1; n > most || len(errs) > 0 {
			t.Errorf("%d passes where there was time for %d; %v", n, most, errs)
		}
	})
}

// TestSweeperTells of rows that cannot be removed, of a retention that is too short, and goes on when it can.
func TestSweeperTells(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		var log bytes.Buffer
		var told reports
		d := New(b.pool(t, ""), &Config{Sweep: &SweepConfig{
			Every: minSweepEvery, Retention: 20 * time.Second, Report: told.add, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}})
		defer d.Close()
		b.oldRows(t, "k", 5)
		take(t, d, "held", 30*time.Second)
		eventually(t, "it is refused, twice", func() bool { _, _, errs := told.get(); return len(errs) >= 2 })
		_, rows, errs := told.get()
		if rows != 0 || !errors.Is(errs[0], dibsdriver.ErrRefused) || !strings.Contains(errs[0].Error(), "shorter than the longest TTL") {
			t.Errorf("%d rows; %v", rows, errs)
		}
		b.nothingOpen(t)
		if err := d.Close(); err != nil { // nobody writes to the log any more
			t.Error(err)
		}
		if s := log.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, "level=WARN") || !strings.Contains(s, "cannot be removed") ||
			!strings.Contains(s, "raise the retention") {
			t.Errorf("the log says %q", s)
		}
	})
}

// TestSweeperFallsBehind: a warning, not for what was there before the first pass, and not each time.
func TestSweeperFallsBehind(t *testing.T) {
	var log bytes.Buffer
	told := 0
	d := New(opened(t, "u@tcp(127.0.0.1:1)/db"), &Config{Sweep: &SweepConfig{
		Logger: slog.New(slog.NewTextHandler(&log, nil)), Report: func(SweepReport) { told++; panic("of a user") },
	}})
	w := newSweeper(d)
	lines := func(want int, part string) {
		t.Helper()
		s := log.String()
		log.Reset()
		if n := strings.Count(s, "\n") - strings.Count(s, "panicked"); n != want || !strings.Contains(s, part) || strings.Count(s, "panicked") != 1 {
			t.Errorf("the log says %q", s)
		}
	}
	late := SweepReport{Rows: 7, Lag: 71 * time.Second, Took: time.Second}
	w.tell(SweepReport{Err: errors.New("no")})
	lines(1, "cannot be removed")
	w.tell(late)
	lines(0, "")
	w.tell(SweepReport{Rows: 7, Lag: 69 * time.Second})
	lines(0, "")
	w.tell(late)
	lines(1, "lag=1m11s rows=7")
	w.tell(late)
	lines(0, "")
	w.logged = map[string]time.Time{"dibs: rows": time.Now()}
	w.tell(late)
	lines(1, "faster than they can be removed")
	if told != 6 {
		t.Errorf("told %d times", told)
	}
}

// TestSweeperLeavesThePoolAlone: it takes no connection while the application uses all.
func TestSweeperLeavesThePoolAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		db := b.pool(t, "")
		db.SetMaxOpenConns(2)
		var told reports
		d := New(db, &Config{Sweep: &SweepConfig{Every: minSweepEvery, Report: told.add, Logger: quiet}})
		defer d.Close()
		freed(t, d, "k")
		eventually(t, "it sweeps", func() bool { n, _, _ := told.get(); return n > 0 })
		conn, err := db.Conn(within(t))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		owner, _ := take(t, d, "k", 30*time.Second)
		b.oldRows(t, "old", 3)
		n, _, _ := told.get()
		for range 20 { // more than enough for a pass
			renewed(t, d, dibsdriver.Renewed, "k", owner, 30*time.Second)
			if !rest(context.Background(), minSweepEvery/4) {
				t.Fatal("no rest")
			}
		}
		if after, _, errs := told.get(); after > n+1 || len(errs) > 0 { // one may have been under way
			t.Errorf("%d passes without a connection; %v", after-n, errs)
		}
		conn.Close()
		eventually(t, "the rows are gone", func() bool { _, rows, _ := told.get(); return rows == 3 })
	})
}
