//go:build unix

package dibssqlite

import (
	"context"
	"encoding/json"
	"os"
	ossignal "os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// full is what is said on a disk that takes no more.
type full struct {
	Ping, Acquire outcome
	Findings      []dibsdriver.Finding
}

// fullRole uses a file that may not grow, as on a full disk: from the start, or from when its -wal is there.
func fullRole(ctx context.Context, args []string) error {
	ossignal.Ignore(syscall.SIGXFSZ) // a write beyond the limit then fails, as one to a full disk does
	d, err := Open(args[0], nil)
	if err != nil {
		return err
	}
	defer d.Close()
	room := int64(smallestFile)
	if args[1] == "wal" {
		if err := d.Ping(ctx); err != nil {
			return err
		}
		fi, err := os.Stat(args[0] + "-wal")
		if err != nil {
			return err
		}
		room = fi.Size()
	}
	// The hard limit stays. Its fields are not of one type on all systems.
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	limit.Cur = 0
	for range room {
		limit.Cur++
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	var f full
	f.Ping = outcomeOf(d.Ping(ctx))
	_, err = d.Acquire(ctx, dibsdriver.AcquireParams{Key: "k", Owner: newOwner(), TTL: time.Minute})
	f.Acquire = outcomeOf(err)
	f.Findings = d.Examine(ctx)
	return json.NewEncoder(os.Stdout).Encode(f)
}

// TestFullDisk: whoever asks whether the file can be used hears that it cannot, also where only the -wal has no room to grow.
func TestFullDisk(t *testing.T) {
	for when, check := range map[string]string{"start": checkOpen, "wal": checkWrites} {
		d := open(t, tempFile(t))
		owner, _ := take(t, d, "held", time.Hour)
		if when == "start" {
			d.Close() // takes its -wal with it
		}
		p := startRole(t, nil, "full", d.path, when)
		var f full
		if err := json.Unmarshal([]byte(p.line(t)), &f); err != nil {
			t.Fatal(err)
		}
		for what, o := range map[string]outcome{"Ping": f.Ping, "Acquire": f.Acquire} {
			if !o.Unavailable || o.Refused || o.ReadOnly || !strings.Contains(o.Text, d.path) || !strings.Contains(o.Text, "full or failing; free some space") {
				t.Errorf("%s, %s: %+v", when, what, o)
			}
		}
		wantFinding(t, f.Findings, check, isFault, "full or failing", "free some space")
		onlyWrong(t, f.Findings, check, checkSpace)
		if when == "wal" { // the others have room, and nothing was left behind for them to find
			wantFinding(t, d.Examine(t.Context()), checkWrites, isOK)
			if n := number(t, raw(t, d.path), "SELECT (SELECT count(*) FROM dibs_leases) * 100 + (SELECT count(*) FROM dibs_meta)"); n != 102 {
				t.Errorf("the probe has left something: %d", n)
			}
			release(t, d, "held", owner)
		}
	}
}
