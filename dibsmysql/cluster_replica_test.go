//go:build clusters

package dibsmysql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// lossy is a failover to a replica that has not heard of the holder.
type lossy struct {
	name   string
	before func(t *testing.T, f *failover, first *dibs.Locker) (lock *dibs.Lock) // what the replica knows of the key; lock is released when it lags
	after  time.Duration                                                         // from a renewal to the death of the primary
	late   time.Duration                                                         // from there to the promotion
}

const (
	lossyTTL = 6 * time.Second
	olderTTL = 10 * time.Second
)

var lossyFailovers = []lossy{
	{name: "row missing"},
	{name: "row free", after: lossyTTL / 4, before: func(t *testing.T, f *failover, first *dibs.Locker) *dibs.Lock {
		lock, _ := hold(t, first, "k")
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
		return nil
	}},
	{name: "row of the holder before", before: func(t *testing.T, f *failover, first *dibs.Locker) *dibs.Lock {
		lock, _ := hold(t, first, "k", dibs.TTL(olderTTL))
		return lock
	}},
	{name: "promoted late", late: lossyTTL + 500*time.Millisecond},
}

// TestFact34_S3_S4_LossyFailover: the primary is killed, and a replica that lacks the last acquisition takes its place. Tokens go on rising; the old
// holder learns of its loss from its next renewal, or at the end of its trust window if that does not reach a server any more; and its transaction
// does not commit. There are two holders meanwhile, which nothing can prevent.
func TestFact34_S3_S4_LossyFailover(t *testing.T) {
	for _, m := range lossyFailovers {
		t.Run(m.name, func(t *testing.T) {
			f := newFailover(t)
			m.run(t, f)
		})
	}
}

type got struct {
	lock *dibs.Lock
	work context.Context
	err  error
	at   time.Time
}

func (m lossy) run(t *testing.T, f *failover) {
	first, holder, waiter, fresh := f.process(t, lossyTTL), f.process(t, lossyTTL), f.process(t, lossyTTL), f.process(t, lossyTTL)
	var before *dibs.Lock
	if m.before != nil {
		before = m.before(t, f, first)
	}
	f.lag(t)
	if before != nil {
		if err := before.Release(); err != nil {
			t.Fatal(err)
		}
	}
	lock, work := f.hold(t, holder, "k")
	ended := make(chan time.Time, 1)
	context.AfterFunc(work, func() { ended <- time.Now() })
	waits := make(chan got, 1)
	go func() {
		l, ctx, err := waiter.Acquire(t.Context(), "k")
		waits <- got{l, ctx, err, time.Now()}
	}()
	eventually(t, "the waiter waits in the server", func() bool { return f.old.inLine(t) == 1 })
	_, _, left := f.old.peek(t, "k")
	eventually(t, "the lease is renewed", func() bool { _, _, now := f.old.peek(t, "k"); return now > left })
	time.Sleep(m.after)
	if err := lock.Err(); err != nil {
		t.Fatal(err)
	}

	failed := f.fail()
	if m.late > 0 {
		time.Sleep(time.Until(failed.Add(m.late)))
	}
	promoted := f.promote(t)
	if before != nil {
		// What the new server knows is older than what was: the key stays with the one before, until that one's lease ends.
		var busy *dibs.BusyError
		if _, _, err := fresh.TryAcquire(within(t), "k"); !errors.As(err, &busy) || busy.Holder.Token != before.Token() {
			t.Errorf("the promoted server should know the holder before, %d: %v", before.Token(), err)
		}
	}
	var next got
	select {
	case next = <-waits:
	case <-time.After(30 * time.Second):
		t.Fatal("the waiter does not come back")
	}
	if next.err != nil {
		t.Fatalf("the waiter: %v", next.err)
	}
	if next.lock.Token() <= lock.Token() {
		t.Errorf("token %d after %d", next.lock.Token(), lock.Token())
	}

	// Whether the old holder has heard of it or not.
	old := f.old.behind(t, f.way)
	for tries := 1; ; tries++ {
		err := InTx(t.Context(), old, lock, f.new.adds(t))
		if errors.Is(err, dibs.ErrLost) {
			break
		}
		if !errors.Is(err, dibs.ErrUnavailable) || errors.Is(err, dibs.ErrOutcomeUnknown) || tries == 10 {
			t.Fatalf("the old holder's transaction: %v", err)
		}
	}
	f.new.worked(t, 0)
	if err := InTx(next.work, f.old.behind(t, f.way), next.lock, f.new.adds(t)); err != nil {
		t.Errorf("the new holder's transaction: %v", err)
	}
	f.new.worked(t, 1)

	var lostAt time.Time
	select {
	case lostAt = <-ended:
	case <-time.After(15 * time.Second):
		t.Fatal("the old holder is not told")
	}
	cause := context.Cause(work)
	if !errors.Is(cause, dibs.ErrLost) {
		t.Errorf("the old holder is told %v", cause)
	}
	t.Logf("two holders for %s; the waiter had the key %s after the promotion, the old holder knew %s after it (%v)", max(0, lostAt.Sub(next.at)).Round(time.Millisecond),
		next.at.Sub(promoted).Round(time.Millisecond), lostAt.Sub(promoted).Round(time.Millisecond), cause)
	if m.late > 0 {
		// Only the timer can have told, and it did so before a lease that the primary had granted could be anybody's.
		if !strings.Contains(cause.Error(), "trust window") || !lostAt.Before(next.at) {
			t.Errorf("told %s after the primary's death, %v; the next had the key %s after it", lostAt.Sub(failed), cause, next.at.Sub(failed))
		}
	} else if !strings.Contains(cause.Error(), "the store says") {
		t.Errorf("a server was there to say so: %v", cause)
	}
	if err := lock.Release(); !errors.Is(err, dibs.ErrLost) {
		t.Errorf("the old holder's release: %v", err)
	}

	// Each process that has seen a token, and one that has seen none.
	last := next.lock
	for i, l := range []*dibs.Locker{holder, first, fresh, waiter} {
		if err := last.Release(); err != nil {
			t.Errorf("process %d: %v", i, err)
		}
		now, _ := hold(t, l, "k")
		if now.Token() < last.Token()+dibsdriver.TokenStep {
			t.Errorf("process %d: token %d after %d", i, now.Token(), last.Token())
		}
		last = now
	}
}

// TestFact34_FailoverKeepsLeases: what the replica has heard of goes on after its promotion. A lease that it saw taken and not renewed lives on if it has time left, and is lost
// if it has none.
func TestFact34_FailoverKeepsLeases(t *testing.T) {
	f := newFailover(t)
	holder, other := f.process(t, dibsTTL), f.process(t, dibsTTL)
	db := f.old.behind(t, f.way)
	lock, work := f.hold(t, holder, "k")
	short, shortWork := f.hold(t, holder, "short", dibs.TTL(lossyTTL))
	if err := InTx(work, db, lock, f.old.adds(t)); err != nil { // from now on the driver knows where it is
		t.Fatal(err)
	}
	f.lag(t)
	_, _, left := f.old.peek(t, "short")
	eventually(t, "the lease is renewed", func() bool { _, _, now := f.old.peek(t, "short"); return now > left })
	for { // as seen by the replica; on the primary it goes on
		if _, _, left := f.new.peek(t, "short"); left < 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := short.Err(); err != nil {
		t.Fatal(err)
	}
	f.fail()
	f.promote(t)

	if err := lock.Verify(within(t)); err != nil {
		t.Errorf("the lease that has time left: %v", err)
	}
	if _, _, err := other.TryAcquire(within(t), "k"); !errors.Is(err, dibs.ErrBusy) {
		t.Errorf("it is held, and another is told %v", err)
	}
	err := InTx(work, db, lock, f.new.adds(t))
	if !errors.Is(err, dibs.ErrUnavailable) || !strings.Contains(err.Error(), "moved") {
		t.Errorf("a transaction on another server than before: %v", err)
	}
	f.new.worked(t, 1)
	if err := InTx(work, db, lock, f.new.adds(t)); err != nil {
		t.Errorf("the same again: %v", err)
	}
	f.new.worked(t, 2)

	select {
	case <-shortWork.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the holder of the lease that has none left is not told")
	}
	is(t, "the lease that has none left", short.Err(), dibs.ErrLost)
	again, _ := f.hold(t, other, "short")
	if again.Token() <= short.Token() {
		t.Errorf("token %d after %d", again.Token(), short.Token())
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

// dibsTTL is the default.
const dibsTTL = 30 * time.Second

// TestFact34_S7_CommitAfterFailover: a fenced transaction of a holder that still believes in its lease is refused by the server that does not know it, before anybody else has
// the key and after. One that was under way when the primary died, of a process that looks at nothing but its outcome, does not commit either.
func TestFact34_S7_CommitAfterFailover(t *testing.T) {
	f := newFailover(t)
	holder, other := f.process(t, dibsTTL), f.process(t, dibsTTL)
	db := f.old.behind(t, f.way)
	aside, _ := f.hold(t, holder, "aside")
	if err := InTx(t.Context(), db, aside, f.old.adds(t)); err != nil {
		t.Fatal(err)
	}
	f.lag(t)
	lock, work := f.hold(t, holder, "lost")
	helper := startHelper(t, "hold", fmt.Sprintf("%s:%s@tcp(%s)/%s", f.old.App.User, f.old.App.Password, f.way.addr(), f.old.database), dibsTTL.String(), "keep")
	if got := helper.line(t); got != "read" {
		t.Fatal(got)
	}
	f.fail()
	f.promote(t)

	refused := func(when string) {
		t.Helper()
		if err := lock.Err(); err != nil || work.Err() != nil {
			t.Fatalf("the holder was to believe in its lease still: %v", err)
		}
		err := InTx(work, db, lock, f.new.adds(t))
		if errors.Is(err, dibs.ErrUnavailable) && !errors.Is(err, dibs.ErrLost) { // the first on this server
			err = InTx(work, db, lock, f.new.adds(t))
		}
		is(t, "a commit "+when, err, dibs.ErrLost)
		f.new.worked(t, 1)
	}
	refused("of a lease that the server does not know")
	next, nextWork := f.hold(t, other, "lost")
	refused("of a lease that is another's")
	helpers, helpersWork := f.hold(t, other, "k")
	helper.tell(t, "go on")
	if got := helper.line(t); got == "committed" {
		t.Error("a transaction that began on the old server is committed")
	}
	f.new.worked(t, 1)
	for l, ctx := range map[*dibs.Lock]context.Context{next: nextWork, helpers: helpersWork} {
		if err := InTx(ctx, f.old.behind(t, f.way), l, f.new.adds(t)); err != nil {
			t.Errorf("the new holder: %v", err)
		}
	}
	f.new.worked(t, 3)
	is(t, "asking", lock.Verify(within(t)), dibs.ErrLost)
}

// TestFact34_S4_FailoverToAClockBehind: where the new primary's clock is behind by more than the time since the lost acquisition, only who has seen a token remembers it.
func TestFact34_S4_FailoverToAClockBehind(t *testing.T) {
	f := newFailover(t)
	f.lag(t)
	holder := f.process(t, dibsTTL)
	seen, _ := f.hold(t, holder, "seen")
	unseen, _ := f.hold(t, holder, "unseen")
	f.fail()
	f.new.must(t, f.new.admin, "SET GLOBAL init_connect = 'SET timestamp = UNIX_TIMESTAMP() - 3600'") // for the application's sessions
	f.promote(t)
	for _, lock := range []*dibs.Lock{seen, unseen} {
		is(t, "a lease that the server does not know", lock.Verify(within(t)), dibs.ErrLost)
	}
	again, _ := f.hold(t, holder, "seen")
	if again.Token() < seen.Token()+dibsdriver.TokenStep {
		t.Errorf("token %d after %d, which this process has seen", again.Token(), seen.Token())
	}
	if lower, _ := hold(t, f.process(t, dibsTTL), "unseen"); lower.Token() >= unseen.Token() {
		t.Errorf("token %d, not below %d: the clock is not behind, and this shows nothing", lower.Token(), unseen.Token())
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
	next, _ := hold(t, f.process(t, dibsTTL), "seen")
	if next.Token() < again.Token()+dibsdriver.TokenStep {
		t.Errorf("token %d of another process after %d, which is in the row", next.Token(), again.Token())
	}
}
