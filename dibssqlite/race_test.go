package dibssqlite

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

const (
	raceProcesses  = 6
	raceGoroutines = 4
	raceKeys       = 20
	raceTime       = 1500 * time.Millisecond
	raceLeast      = 10 // acquisitions of each process, however slow the machine
)

// TestNeverLocked: many writers and a slow reader, and no error of SQLite's locks ever reaches a caller. The file
// is made by the race itself.
func TestNeverLocked(t *testing.T) {
	for _, mode := range []string{"open", "wal", "delete"} {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "locks.db")
			var processes []*process
			for range raceProcesses {
				processes = append(processes, startRole(t, nil, "race", mode, path, dir))
			}
			for _, p := range processes {
				if l := p.line(t); l != "ready" {
					t.Fatal(l)
				}
			}
			for _, p := range processes {
				fmt.Fprintln(p.stdin, "go")
			}
			stop := make(chan struct{})
			var reader sync.WaitGroup
			reader.Go(func() { slowReader(t, path, stop) })
			taken := 0
			var worst []time.Duration
			for _, p := range processes {
				var n int
				var p99 time.Duration
				l := p.line(t)
				if _, err := fmt.Sscanf(strings.ReplaceAll(l, ",", " "), "done %d %d", &n, &p99); err != nil {
					t.Fatal(l)
				}
				taken += n
				worst = append(worst, p99)
			}
			close(stop)
			reader.Wait()
			t.Logf("%d acquisitions, p99 of a call in the slowest process %v", taken, slices.Max(worst))
		})
	}
}

// slowReader keeps a read snapshot for a while, again and again.
func slowReader(t *testing.T, path string, stop chan struct{}) {
	db := raw(t, "file:"+path+"?mode=ro&_busy_timeout=5000")
	for {
		rows, err := db.Query("SELECT lock_key FROM dibs_leases")
		if err == nil {
			rows.Next()
		}
		select {
		case <-stop:
		case <-time.After(50 * time.Millisecond):
		}
		if err == nil {
			rows.Close()
		}
		select {
		case <-stop:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func raceRole(mode, path, dir string) error {
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	var d *Driver
	if mode == "open" {
		var err error
		if d, err = Open(path, nil); err != nil {
			return err
		}
	} else {
		db, err := sql.Open("sqlite", "file:"+path+"?_busy_timeout=5000&_journal_mode="+mode)
		if err != nil {
			return err
		}
		defer db.Close()
		d = New(db, nil)
	}
	var mu sync.Mutex
	var errs []error
	var times []time.Duration
	taken := 0
	end := time.Now().Add(raceTime)
	var wg sync.WaitGroup
	for range raceGoroutines {
		wg.Go(func() {
			for enough := false; !enough || time.Now().Before(end); {
				took, ok, err := raceOnce(d, dir, fmt.Sprintf("key-%d", rand.N(raceKeys)))
				mu.Lock()
				times = append(times, took)
				if ok {
					taken++
				}
				enough = taken >= raceLeast
				if err != nil {
					errs = append(errs, err)
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(append(errs, d.Close())...); err != nil {
		return err
	}
	slices.Sort(times)
	fmt.Println("done", taken, int64(times[len(times)*99/100]), len(times))
	return nil
}

// raceOnce checks exclusion with a file that only one can make, and that the tokens rise with another.
func raceOnce(d *Driver, dir, key string) (took time.Duration, ok bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	owner := newOwner()
	start := time.Now()
	r, err := d.Acquire(ctx, dibsdriver.AcquireParams{Key: key, Owner: owner, TTL: time.Hour})
	took = time.Since(start)
	if err != nil || !r.Acquired {
		return took, false, err
	}
	mark := filepath.Join(dir, key+".held")
	f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return took, true, fmt.Errorf("two hold %s: %w", key, err)
	}
	f.Close()
	last, _ := os.ReadFile(filepath.Join(dir, key+".token"))
	if n, _ := strconv.ParseInt(string(last), 10, 64); r.Token < n+dibsdriver.TokenStep {
		return took, true, fmt.Errorf("token %d of %s after %d", r.Token, key, n)
	}
	if err := os.WriteFile(filepath.Join(dir, key+".token"), []byte(strconv.FormatInt(r.Token, 10)), 0o600); err != nil {
		return took, true, err
	}
	answers, err := d.Renew(ctx, []dibsdriver.Renewal{{Key: key, Owner: owner, TTL: time.Hour}})
	if err != nil || answers[0] != dibsdriver.Renewed {
		return took, true, fmt.Errorf("renew %s: %v %w", key, answers, err)
	}
	if err := os.Remove(mark); err != nil {
		return took, true, err
	}
	return took, true, d.Release(ctx, dibsdriver.ReleaseParams{Key: key, Owner: owner})
}
