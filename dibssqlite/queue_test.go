package dibssqlite

import (
	"database/sql"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

func TestQueueOrder(t *testing.T) { bothWays(t, testQueueOrder) }

func testQueueOrder(t *testing.T, d *Driver, db *sql.DB) {
	owner, _ := take(t, d, "k", time.Hour)
	for _, w := range []string{"z", "m", "a"} { // not in the order of their names
		if r, _ := ask(t, d, "k", w); r.Acquired || r.Holder.Token == 0 || r.Holder.Holder != "h" {
			t.Fatalf("%+v", r)
		}
	}
	release(t, d, "k", owner)
	for _, w := range []string{"m", "a", "new"} {
		if r, _ := ask(t, d, "k", w); r.Acquired || r.Holder.Token != 0 || r.Holder.Key != "k" {
			t.Errorf("%s came before z: %+v", w, r)
		}
	}
	r, owner := ask(t, d, "k", "z")
	if !r.Acquired || !r.Contended {
		t.Errorf("z: %+v", r)
	}
	if err := d.Leave(t.Context(), dibsdriver.WaitParams{Key: "k", Waiter: "m"}); err != nil {
		t.Fatal(err)
	}
	if err := d.Leave(t.Context(), dibsdriver.WaitParams{Key: "k", Waiter: "nobody"}); err != nil {
		t.Fatal(err)
	}
	ask(t, d, "k", "z") // again, at the end now
	release(t, d, "k", owner)
	for _, w := range []string{"a", "new", "z"} {
		r, owner := ask(t, d, "k", w)
		if !r.Acquired || r.Contended != (w != "z") {
			t.Fatalf("%s: %+v", w, r)
		}
		release(t, d, "k", owner)
	}
	if n := number(t, db, "SELECT count(*) FROM dibs_waiters"); n != 0 {
		t.Error(n, "places are left")
	}
	// A single attempt passes by the queue.
	owner, _ = take(t, d, "k", time.Hour)
	ask(t, d, "k", "w")
	release(t, d, "k", owner)
	if r, _ := ask(t, d, "k", ""); !r.Acquired || !r.Contended {
		t.Errorf("%+v", r)
	}
}

// TestDeadWaiter: a killed process holds the others up for less than QueueGrace.
func TestDeadWaiter(t *testing.T) {
	d := open(t, tempFile(t))
	owner, _ := take(t, d, "k", time.Hour)
	p := startRole(t, nil, "ask", d.path)
	if l := p.line(t); l != "ready false <nil>" {
		t.Fatal(l)
	}
	ask(t, d, "k", "next")
	p.kill()
	start := time.Now()
	release(t, d, "k", owner)
	if r, _ := ask(t, d, "k", "next"); r.Acquired {
		t.Fatal("the first place counted for nothing")
	}
	for {
		r, _ := ask(t, d, "k", "next")
		if r.Acquired {
			break
		}
		if time.Since(start) > dibsdriver.QueueGrace {
			t.Fatal("the dead are still in the way")
		}
		time.Sleep(pollMax)
	}
	t.Logf("after %v", time.Since(start))
	if n := number(t, raw(t, d.path), "SELECT count(*) FROM dibs_waiters"); n != 0 {
		t.Error(n, "places are left")
	}
}

// TestWaiterKeepsPlace: by asking at the least every QueueAsk. One that was silent for too long goes to the end, and a time from before the
// clock was set back counts as silence.
func TestWaiterKeepsPlace(t *testing.T) {
	d := open(t, tempFile(t))
	take(t, d, "k", time.Hour)
	ask(t, d, "k", "w")
	db := raw(t, d.path)
	seen := func() int64 {
		return number(t, db, "SELECT "+now+" - seen_ms FROM dibs_waiters WHERE waiter = 'w'")
	}
	place := func() int64 { return number(t, db, "SELECT place FROM dibs_waiters WHERE waiter = 'w'") }
	ask(t, d, "k", "other")
	mustExec(t, db, "UPDATE dibs_waiters SET seen_ms = seen_ms - 1100 WHERE waiter = 'w'")
	ask(t, d, "k", "w")
	if s := seen(); s > 1000 || place() != 1 {
		t.Error("not refreshed:", s, place())
	}
	for _, shift := range []int64{-3100, 7_200_000} {
		mustExec(t, db, "UPDATE dibs_waiters SET place = place - 10 WHERE waiter = 'w'")
		mustExec(t, db, "UPDATE dibs_waiters SET seen_ms = seen_ms + ? WHERE waiter = 'w'", shift)
		ask(t, d, "k", "w")
		if s := seen(); s > 1000 || s < 0 || place() <= 2 {
			t.Error("kept its place:", s, place())
		}
		ask(t, d, "k", "other")
	}
}

// TestPollWritesNothing, and does not even need the file's write lock.
func TestPollWritesNothing(t *testing.T) {
	d := open(t, tempFile(t))
	take(t, d, "k", time.Hour)
	ask(t, d, "k", "w")
	ask(t, d, "k", "")
	db := raw(t, d.path)
	db.SetMaxOpenConns(1)
	wal := func() os.FileInfo {
		fi, err := os.Stat(d.path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return fi
	}
	// Fresh for as long as this may take.
	mustExec(t, db, "UPDATE dibs_waiters SET seen_ms = "+now+" + 900")
	version := number(t, db, "PRAGMA data_version")
	before := wal()
	p := startRole(t, nil, "keep-locked", d.path)
	p.line(t)
	mustFresh := func() bool { return number(t, db, "SELECT "+now+" < seen_ms FROM dibs_waiters") == 1 }
	polls := 0
	for mustFresh() && polls < 200 {
		for _, w := range []string{"w", ""} {
			if r, _ := ask(t, d, "k", w); r.Acquired || r.Holder.Token == 0 {
				t.Fatalf("%+v", r)
			}
		}
		polls++
	}
	if polls == 0 {
		t.Fatal("too slow to poll at all")
	}
	if v := number(t, db, "PRAGMA data_version"); v != version {
		t.Error("the data changed")
	}
	if after := wal(); after.Size() != before.Size() || after.ModTime() != before.ModTime() {
		t.Error("the log changed")
	}
}

func TestOddNames(t *testing.T) {
	d := open(t, tempFile(t))
	long := strings.Repeat("é", 127) + "x"
	for _, key := range []string{"\x00", "'; DROP TABLE dibs_leases; --", long, long[:254], "Order-A", "order-a", " order-a"} {
		owner, _ := take(t, d, key, time.Hour)
		if r, _ := ask(t, d, key, "w'"); r.Acquired || r.Holder.Key != key {
			t.Errorf("%q: %+v", key, r)
		}
		if err := d.Leave(t.Context(), dibsdriver.WaitParams{Key: key, Waiter: "w'"}); err != nil {
			t.Error(err)
		}
		defer release(t, d, key, owner)
	}
}
