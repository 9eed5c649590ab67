//go:build unix

package dibsmysql

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestS7_B02_FrozenHolder: a holder that is frozen past its TTL, and wakes up after another has taken over and committed, does not commit.
func TestS7_B02_FrozenHolder(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		for _, how := range []string{"keep", "release"} {
			b.must(t, b.admin, "DROP TABLE IF EXISTS work")
			b.work(t)
			h := startHelper(t, "hold", b.dsn(b.App, b.database, ""), "1s", how)
			if got := h.line(t); got != "read" {
				t.Fatal(got)
			}
			h.signal(t, syscall.SIGSTOP)
			lock, ctx := hold(t, b.locker(t, "", nil), "k")
			if err := InTx(ctx, b.pool(t, ""), lock, b.adds(t)); err != nil {
				t.Error(err)
			}
			h.signal(t, syscall.SIGCONT)
			h.tell(t, "go on")
			if got := h.line(t); got != "lost" {
				t.Errorf("%s: the frozen holder: %s", how, got)
			}
			b.worked(t, 1)
			if err := lock.Verify(within(t)); err != nil {
				t.Errorf("%s: the next holder's lock: %v", how, err)
			}
			// And one that was not frozen does commit.
			if err := lock.Release(); err != nil {
				t.Error(err)
			}
			h = startHelper(t, "hold", b.dsn(b.App, b.database, ""), "1s", how)
			h.line(t)
			h.tell(t, "go on")
			if got := h.line(t); got != "committed" {
				t.Errorf("%s: a holder that was not frozen: %s", how, got)
			}
			b.worked(t, 2)
			h.kill()
		}
	})
}

const (
	balance   = 1000
	transfers = 1000
	helpers   = 4
	lifetime  = 400 * time.Millisecond
	enough    = 20 // takeovers
)

// TestS7_Transfers: 1,000 transfers between accounts, by processes that are frozen and killed at random. With the fence each is there once and whole;
// without it, updates are lost.
func TestS7_Transfers(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		for _, fenced := range []bool{true, false} {
			t.Run(fmt.Sprint("fenced ", fenced), func(t *testing.T) {
				t.Parallel()
				newBed(t, b.Server, true).transfer(t, fenced)
			})
		}
	})
}

func (b *bed) transfer(t *testing.T, fenced bool) {
	b.must(t, b.admin, "CREATE TABLE work (id INT PRIMARY KEY, n BIGINT NOT NULL)")
	b.must(t, b.admin, "CREATE TABLE journal (id INT PRIMARY KEY AUTO_INCREMENT, account_from INT NOT NULL, account_to INT NOT NULL, amount INT NOT NULL)")
	for i := range accounts {
		b.must(t, b.admin, "INSERT INTO work VALUES (?, ?)", i, balance)
	}
	var refused atomic.Int32
	var reading sync.WaitGroup
	start := func() *helper {
		h := startHelper(t, "transfer", b.dsn(b.App, b.database, "wait_timeout=10"), lifetime.String(), fmt.Sprint(fenced))
		reading.Go(func() {
			for h.out.Scan() {
				if h.out.Text() != "refused" {
					t.Errorf("fenced %v: %s", fenced, h.out.Text())
				}
				refused.Add(1)
			}
		})
		return h
	}
	all := make([]*helper, helpers)
	for i := range all {
		all[i] = start()
	}
	// Frozen while it holds the lock: the lease's row says who.
	freezes, kills, takeovers := 0, 0, 0
	limit := time.Now().Add(60 * time.Second) // on a busy machine
	for {
		done := b.number(t, "SELECT COUNT(*) FROM journal")
		tested := takeovers >= enough && refused.Load() > 0
		if fenced && done >= transfers && tested || !fenced && b.wrong(t) != "" {
			break
		}
		if time.Now().After(limit) {
			t.Errorf("fenced %v: %d transfers, %d freezes, %d takeovers", fenced, done, freezes, takeovers)
			break
		}
		if tested && fenced { // the rest at full speed
			time.Sleep(20 * time.Millisecond)
			continue
		}
		i := rand.IntN(len(all))
		if holder := b.holder(t, "accounts"); rand.IntN(4) > 0 {
			if at := slices.IndexFunc(all, func(h *helper) bool { return h.cmd.Process.Pid == holder }); at >= 0 {
				i = at
			}
		}
		if takeovers >= 4*(kills+1) {
			all[i].kill()
			all[i] = start()
			kills++
			continue
		}
		all[i].signal(t, syscall.SIGSTOP)
		freezes++
		if holder := b.holder(t, "accounts"); holder == all[i].cmd.Process.Pid {
			// Until somebody else has it, or, if a row is locked, for so long that its lease has expired.
			for end := time.Now().Add(2 * lifetime); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				if now := b.holder(t, "accounts"); now != holder && now != 0 {
					takeovers++
					time.Sleep(20 * time.Millisecond) // it does its work, or more than that
					break
				}
			}
		}
		all[i].signal(t, syscall.SIGCONT)
		time.Sleep(rand.N(30 * time.Millisecond))
	}
	for _, h := range all {
		h.kill()
	}
	reading.Wait()
	t.Logf("fenced %v: %d transfers, %d freezes, %d kills, %d takeovers, %d refused",
		fenced, b.number(t, "SELECT COUNT(*) FROM journal"), freezes, kills, takeovers, refused.Load())
	// What a killed helper had sent may still be under way.
	eventually(t, "nothing is under way", func() bool { return b.threads(t) == 0 })
	switch wrong := b.wrong(t); {
	case fenced && wrong != "":
		t.Errorf("with the fence: %s", wrong)
	case fenced && refused.Load() == 0:
		t.Error("nothing was refused: the fence was not put to the test")
	case !fenced && wrong == "":
		t.Error("without the fence, no update was lost: this proves nothing")
	}
}

// wrong compares the balances with the journal, which is written in the same transactions.
func (b *bed) wrong(t *testing.T) (problems string) {
	t.Helper()
	rows, err := b.admin.Query("SELECT a.id, a.n, CAST(? + COALESCE((SELECT SUM(amount) FROM journal WHERE account_to = a.id), 0) - "+
		"COALESCE((SELECT SUM(amount) FROM journal WHERE account_from = a.id), 0) AS SIGNED) FROM work AS a", balance)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, has, should int
		if err := rows.Scan(&id, &has, &should); err != nil {
			t.Fatal(err)
		}
		if has != should {
			problems += fmt.Sprintf("account %d has %d and should have %d; ", id, has, should)
		}
	}
	return problems
}

// holder is the process that holds the key, 0 if none does.
func (b *bed) holder(t *testing.T, key string) (pid int) {
	t.Helper()
	var name string
	err := b.admin.QueryRow("SELECT holder FROM dibs_leases WHERE lock_key = ? AND owner IS NOT NULL AND expires > UTC_TIMESTAMP(6)", []byte(key)).Scan(&name)
	if err != nil {
		return 0
	}
	var host string
	if _, err := fmt.Sscanf(name, "%s pid %d", &host, &pid); err != nil {
		t.Fatalf("holder %q: %v", name, err)
	}
	return pid
}
