//go:build unix

package dibssqlite

import (
	"errors"
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
	b := newBench(t, "New")
	l := locker(t, b.driver, nil)
	for i, how := range []string{"keep", "release"} {
		p := startRole(t, nil, "hold-fenced", b.path, how)
		if got := p.line(t); got != "read" {
			t.Fatal(got)
		}
		b.freeze(t, p)
		lock, ctx := hold(t, l, "k")
		if err := InTx(ctx, b.db, lock, adds); err != nil {
			t.Error(err)
		}
		signal(t, p, syscall.SIGCONT)
		fmt.Fprintln(p.stdin, "go on")
		if got := p.line(t); got != "lost" {
			t.Errorf("%s: the frozen holder: %s", how, got)
		}
		b.worked(t, int64(2*i+1))
		if err := errors.Join(lock.Verify(within(t)), lock.Release()); err != nil {
			t.Errorf("%s: the next holder's lock: %v", how, err)
		}
		// And one that was not frozen does commit.
		p.kill()
		p = startRole(t, nil, "hold-fenced", b.path, how)
		p.line(t)
		fmt.Fprintln(p.stdin, "go on")
		if got := p.line(t); got != "committed" {
			t.Errorf("%s: a holder that was not frozen: %s", how, got)
		}
		b.worked(t, int64(2*i+2))
		p.kill()
	}
}

// freeze stops a process while it does not have the file's write lock: with it, it would keep everybody out.
func (b *bench) freeze(t testing.TB, p *process) {
	t.Helper()
	tx := begin(t, b.look, "UPDATE dibs_meta SET value = value")
	signal(t, p, syscall.SIGSTOP)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
}

func signal(t testing.TB, p *process, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

const (
	balance   = 1000
	transfers = 1000
	workers   = 4
	enough    = 20 // takeovers
)

// TestS7_Transfers: 1,000 transfers between accounts, by processes that are frozen and killed at random. With the fence each is there once and whole;
// without it, updates are lost.
func TestS7_Transfers(t *testing.T) {
	t.Parallel()
	for _, fenced := range []bool{true, false} {
		t.Run(fmt.Sprint("fenced ", fenced), func(t *testing.T) {
			t.Parallel()
			newBench(t, "New").transfer(t, fenced)
		})
	}
}

func (b *bench) transfer(t *testing.T, fenced bool) {
	mustExec(t, b.look, "DELETE FROM work")
	mustExec(t, b.look, "CREATE TABLE journal (id INTEGER PRIMARY KEY, account_from INTEGER NOT NULL, account_to INTEGER NOT NULL, amount INTEGER NOT NULL)")
	for i := range accounts {
		mustExec(t, b.look, "INSERT INTO work (id, n) VALUES (?, ?)", i, balance)
	}
	if err := b.driver.Ping(within(t)); err != nil {
		t.Fatal(err)
	}
	var refused atomic.Int32
	var reading sync.WaitGroup
	start := func() *process {
		p := startRole(t, nil, "transfer", b.path, fmt.Sprint(fenced))
		reading.Go(func() {
			for p.out.Scan() {
				if p.out.Text() != "refused" {
					t.Error(p.out.Text())
				}
				refused.Add(1)
			}
		})
		return p
	}
	all := make([]*process, workers)
	for i := range all {
		all[i] = start()
	}
	freezes, kills, takeovers := 0, 0, 0
	limit := time.Now().Add(60 * time.Second) // on a busy machine
	for {
		done := number(t, b.look, "SELECT count(*) FROM journal")
		tested := takeovers >= enough && refused.Load() > 0
		if fenced && done >= transfers && tested || !fenced && b.wrong(t) != "" {
			break
		}
		if time.Now().After(limit) {
			t.Errorf("too slow: %d transfers, %d freezes, %d takeovers", done, freezes, takeovers)
			break
		}
		if tested && fenced { // the rest at full speed
			time.Sleep(20 * time.Millisecond)
			continue
		}
		holder := b.holder(t)
		i := slices.IndexFunc(all, func(p *process) bool { return p.cmd.Process.Pid == holder })
		if i < 0 {
			continue
		}
		if takeovers >= 4*(kills+1) {
			all[i].kill()
			all[i] = start()
			kills++
			continue
		}
		b.freeze(t, all[i])
		freezes++
		if holder := b.holder(t); holder == all[i].cmd.Process.Pid {
			// Until somebody else has it, or, if the file is locked, for so long that its lease has expired.
			for end := time.Now().Add(2 * lifetime); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				if now := b.holder(t); now != holder && now != 0 {
					takeovers++
					time.Sleep(20 * time.Millisecond) // it does its work, or more than that
					break
				}
			}
		}
		signal(t, all[i], syscall.SIGCONT)
		time.Sleep(rand.N(30 * time.Millisecond))
	}
	for _, p := range all {
		p.kill()
	}
	reading.Wait()
	t.Logf("%d transfers, %d freezes, %d kills, %d takeovers, %d refused",
		number(t, b.look, "SELECT count(*) FROM journal"), freezes, kills, takeovers, refused.Load())
	switch wrong := b.wrong(t); {
	case fenced && wrong != "":
		t.Errorf("with the fence: %s", wrong)
	case fenced && refused.Load() == 0:
		t.Error("nothing was refused: the fence was not put to the test")
	case !fenced && wrong == "":
		t.Error("without the fence, no update was lost: this proves nothing")
	}
	if err := b.driver.Close(); err != nil {
		t.Error(err)
	}
}

// wrong compares the balances with the journal, which is written in the same transactions.
func (b *bench) wrong(t *testing.T) (problems string) {
	t.Helper()
	rows, err := b.look.Query("SELECT a.id, a.n, ? + coalesce((SELECT sum(amount) FROM journal WHERE account_to = a.id), 0) - "+
		"coalesce((SELECT sum(amount) FROM journal WHERE account_from = a.id), 0) FROM work AS a", balance)
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

// holder is the process that holds the accounts, 0 if none does.
func (b *bench) holder(t *testing.T) (pid int) {
	t.Helper()
	var host, name string
	const query = "SELECT holder FROM dibs_leases WHERE lock_key = CAST('accounts' AS BLOB) AND owner IS NOT NULL AND expires_ms > " + now
	err := b.look.QueryRow(query).Scan(&name)
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscanf(name, "%s pid %d", &host, &pid); err != nil {
		t.Fatalf("holder %q: %v", name, err)
	}
	return pid
}
