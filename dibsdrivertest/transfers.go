package dibsdrivertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dibs-go/dibs"
)

// Processes that are frozen and killed while they change business data.
var transferCases = []testcase{
	{name: "S7/B02/frozen_holder", run: frozenBeforeTheFence, needs: fences | freeTTL | processes},
	{name: "S7/B02/frozen_holder_is_broken", run: brokenBeforeTheFence, needs: fences | freeTTL | processes},
	{name: "S7/B02/transfers_fenced", run: func(e *env) { transferring(e, true) }, needs: fences | freeTTL | quick | processes},
	{name: "S7/B02/transfers_without_a_fence", run: func(e *env) { transferring(e, false) }, needs: fences | freeTTL | quick | processes},
}

// freeze stops a process, where there is one writer while it is not that: nobody else could go on.
func (b *fenceBed) freeze(p *Taker) {
	b.Helper()
	if !b.OneWriter {
		p.Freeze()
		return
	}
	tx, err := b.Admin.Begin()
	b.ok(err, "begin")
	_, err = tx.Exec("UPDATE work SET n = n WHERE id = 1")
	b.ok(err, "becoming the writer")
	p.Freeze()
	b.ok(tx.Rollback(), "rollback")
}

// frozenBeforeTheFence: a holder that is frozen past its TTL, and wakes up after another has taken over and committed, does not commit. It may know by itself.
func frozenBeforeTheFence(e *env) { frozenAndReplaced(e, time.Second, func(*fenceBed) {}) }

// brokenBeforeTheFence: the same, but its lease was broken and would have lasted for long, so that its process has nothing against the commit, nor any reason to ask.
// Only the store can refuse.
func brokenBeforeTheFence(e *env) {
	frozenAndReplaced(e, time.Hour, func(b *fenceBed) {
		_, err := b.locker.BreakNow(b.within(), "k", b.store.Peek(b, "k").Token)
		b.ok(err, "break")
	})
}

func frozenAndReplaced(e *env, ttl time.Duration, lose func(*fenceBed)) {
	b := newFenceBed(e, dibs.Config{})
	n := int64(0)
	for _, how := range []string{"keep", "release"} {
		begun := func(ttl time.Duration) *Taker {
			p := b.taker()
			p.Acquire("k", ttl)
			b.ok(p.ask(order{Do: "begin", Key: "k", Fence: &fenceOrder{Release: how == "release", OneWriter: b.OneWriter}}).Error.err(), "begin")
			return p
		}
		finish := func(p *Taker) error { return p.ask(order{Do: "commit", Key: "k"}).Error.err() }
		p := begun(ttl)
		b.freeze(p)
		lose(b)
		lock, work := b.take(b.locker, "k")
		b.ok(b.InTx(work, b.DB, lock, b.add), "the next holder's transaction")
		p.Thaw()
		b.is(finish(p), dibs.ErrLost, how+": the frozen holder")
		n++
		b.worked(n)
		b.ok(lock.Verify(b.within()), how+": the next holder asks")
		// And one that was not frozen does commit.
		b.ok(lock.Release(), how+": the next holder's release")
		p.Kill()
		p = begun(time.Hour)
		b.ok(finish(p), how+": a holder that was not frozen")
		n++
		b.worked(n)
		if how == "keep" {
			b.ok(p.Release("k"), "release")
		}
		p.Kill()
	}
}

const (
	accounts   = 5
	balance    = 1000
	transfers  = 1000
	aTurn      = 20 // transfers under one lock, at most
	lifetime   = 400 * time.Millisecond
	takeovers  = 20 // enough of them
	bankersKey = "accounts"
)

// clerks are the names of its processes.
var clerks = []string{"clerk 0", "clerk 1", "clerk 2", "clerk 3"}

// bank has processes that move money between accounts, and are frozen and killed at random.
type bank struct {
	*fenceBed
	fenced  bool
	refused atomic.Int32
	staff   []*Taker
}

// transferring makes 1,000 transfers. With the fence each is there once and whole; without it, updates are lost.
func transferring(e *env, fenced bool) {
	b := &bank{fenceBed: newFenceBed(e, dibs.Config{}), fenced: fenced, staff: make([]*Taker, len(clerks))}
	b.must("DELETE FROM work")
	b.must("CREATE TABLE journal (account_from INT NOT NULL, account_to INT NOT NULL, amount INT NOT NULL)")
	for i := range accounts {
		b.must(fmt.Sprintf("INSERT INTO work (id, n) VALUES (%d, %d)", i, balance))
	}
	for i := range b.staff {
		b.start(i)
	}
	b.disturb()
	for _, p := range b.staff {
		p.Kill()
	}
	// What a clerk that was killed had sent may still be under way.
	if s, ok := b.store.(SessionCounter); ok {
		b.until(10*time.Second, "nothing is under way", func() bool { _, working := s.Sessions(b); return working == 0 })
	}
	switch wrong := b.wrong(); {
	case fenced && wrong != "":
		b.Error(unsafe, "with the fence:", wrong)
	case fenced && b.refused.Load() == 0:
		b.Error("nothing was refused: the fence was not put to the test")
	case !fenced && wrong == "":
		b.Error("without the fence, no update was lost: this proves nothing")
	}
}

func (b *bank) start(i int) {
	b.staff[i] = startTaker(b, b.store.URL(), func(r report) {
		switch r.What {
		case "ready":
		case "refused":
			b.refused.Add(1)
		default:
			b.Errorf("%s: %v", clerks[i], r.Error)
		}
	}, takerName+"="+clerks[i])
	b.staff[i].order(order{Do: "transfer", Fence: &fenceOrder{Fenced: b.fenced}})
}

// disturb freezes and kills until it was enough: with the fence, until all transfers are made as well; without it, until something is wrong.
func (b *bank) disturb() {
	freezes, kills, taken, done := 0, 0, 0, int64(0)
	defer func() {
		b.Logf("%d transfers, %d freezes, %d kills, %d takeovers, %d refused", done, freezes, kills, taken, b.refused.Load())
	}()
	limit := time.Now().Add(2 * time.Minute) // on a busy machine
	if Long() {
		limit = limit.Add(5 * time.Minute)
	}
	for {
		done = b.number("SELECT COUNT(*) FROM journal")
		tested := taken >= takeovers && b.refused.Load() > 0
		if b.fenced && done >= transfers && tested || !b.fenced && b.wrong() != "" {
			return
		}
		if time.Now().After(limit) {
			b.Errorf("too slow: %d transfers, %d freezes, %d takeovers", done, freezes, taken)
			return
		}
		if tested && b.fenced && !Long() { // the rest with fewer of them
			time.Sleep(200*time.Millisecond + rand.N(400*time.Millisecond))
		}
		i := b.holder()
		if !b.OneWriter && (i < 0 || rand.IntN(4) == 0) {
			i = rand.IntN(len(b.staff))
		}
		if i < 0 {
			continue
		}
		if taken >= 4*(kills+1) {
			b.staff[i].Kill()
			b.start(i)
			kills++
			continue
		}
		b.freeze(b.staff[i])
		freezes++
		if b.holder() == i {
			// Until somebody else has it, or, if what it needs is locked, for so long that its lease has expired.
			for end := time.Now().Add(2 * lifetime); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				if now := b.holder(); now != i && now >= 0 {
					taken++
					time.Sleep(20 * time.Millisecond) // it does its work, or more than that
					break
				}
			}
		}
		b.staff[i].Thaw()
		time.Sleep(rand.N(30 * time.Millisecond))
	}
}

// holder is the clerk who has the accounts, -1 if none has.
func (b *bank) holder() int {
	records, err := b.Driver.List(b.Context(), bankersKey)
	if err != nil {
		return -1
	}
	for _, r := range records {
		if r.Key == bankersKey {
			return slices.Index(clerks, r.Holder)
		}
	}
	return -1
}

// wrong compares the balances with the journal, which is written in the same transactions.
func (b *bank) wrong() (problems string) {
	b.Helper()
	rows, err := b.Admin.Query(fmt.Sprintf("SELECT a.id, a.n, %d + COALESCE((SELECT SUM(amount) FROM journal WHERE account_to = a.id), 0) - "+
		"COALESCE((SELECT SUM(amount) FROM journal WHERE account_from = a.id), 0) FROM work AS a", balance))
	b.ok(err, "looking at the accounts")
	defer rows.Close()
	for rows.Next() {
		var id, has, should int
		b.ok(rows.Scan(&id, &has, &should), "looking at the accounts")
		if has != should {
			problems += fmt.Sprintf("account %d has %d and should have %d; ", id, has, should)
		}
	}
	b.ok(rows.Err(), "looking at the accounts")
	return problems
}
