package dibsdrivertest

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/dibs-go/dibs"
)

// Transactions that are fenced as a whole.
var inTxCases = []testcase{
	{name: "S7/in_tx", run: inTx, needs: fences},
	{name: "S7/in_tx_nested", run: inTxNested, needs: fences | writers},
	{name: "S7/in_tx_context_ends", run: inTxContextEnds, needs: fences},
	{name: "S7/B60/ended_inside", run: endedInside, needs: fences},
	{name: "S7/lost_under_the_work", run: lostUnderTheWork, needs: fences | freeTTL},
	{name: "S7/section_over_before_the_fence", run: sectionOver, needs: fences | writers},
	{name: "S7/max_hold_over_before_the_fence", run: maxHoldOver, needs: fences},
	{name: "S7/in_tx_and_release", run: inTxAndRelease, needs: fences},
}

// inTx: however the work ends, its transaction and its connection do.
func inTx(e *env) {
	b := newFenceBed(e, dibs.Config{})
	lock, work := b.take(b.locker, "k")
	before := b.DB.Stats().InUse
	b.ok(b.InTx(work, b.DB, lock, b.add), "in a transaction")
	b.worked(1)
	b.ok(lock.Err(), "the lock")
	b.ok(lock.Verify(b.within()), "the holder asks")

	boom := errors.New("boom")
	if err := b.InTx(work, b.DB, lock, func(tx *sql.Tx) error { _ = b.add(tx); return boom }); err != boom {
		b.Errorf("%v", err)
	}
	func() {
		defer func() {
			if r := recover(); r != boom {
				b.Errorf("recovered %v", r)
			}
		}()
		_ = b.InTx(work, b.DB, lock, func(tx *sql.Tx) error { _ = b.add(tx); panic(boom) })
	}()
	var exit sync.WaitGroup
	exit.Go(func() {
		_ = b.InTx(work, b.DB, lock, func(tx *sql.Tx) error { _ = b.add(tx); runtime.Goexit(); return nil })
	})
	exit.Wait()
	if err := b.InTx(work, b.DB, lock, func(tx *sql.Tx) error { return errors.Join(b.add(tx), tx.Rollback()) }); !errors.Is(err, sql.ErrTxDone) {
		b.Errorf("ended by the work: %v", err)
	}
	b.worked(1)
	b.many(10, lock)
	b.worked(11)
	if n := b.DB.Stats().InUse; n > before {
		b.Errorf("%d connections are in use, before there were %d", n, before)
	}
	b.ok(lock.Release(), "release")
}

// many transactions at once, by one lock.
func (b *fenceBed) many(n int, lock *dibs.Lock) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if err := b.InTx(b.within(), b.DB, lock, b.add); err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
}

// inTxNested: within the work other transactions may be fenced, by this lock and by another.
func inTxNested(e *env) {
	b := newFenceBed(e, dibs.Config{})
	b.must("INSERT INTO work (id, n) VALUES (2, 0)")
	lock, _ := b.take(b.locker, "k")
	other, _ := b.take(b.locker, "other")
	second := func(tx *sql.Tx) error { _, err := tx.Exec("UPDATE work SET n = n + 1 WHERE id = 2"); return err }
	err := b.InTx(b.within(), b.DB, lock, func(tx *sql.Tx) error {
		if err := b.add(tx); err != nil {
			return err
		}
		for _, lock := range []*dibs.Lock{lock, other} {
			if err := b.InTx(b.within(), b.DB, lock, second); err != nil {
				return err
			}
		}
		return b.Fence(b.within(), tx, other)
	})
	if n := b.number("SELECT n FROM work WHERE id = 2"); err != nil || n != 2 {
		b.Errorf("%d, %v", n, err)
	}
	b.worked(1)
	// Released inside, the outer one is refused.
	b.says("released inside", b.InTx(b.within(), b.DB, lock, func(tx *sql.Tx) error {
		if err := b.add(tx); err != nil {
			return err
		}
		return b.InTxAndRelease(b.within(), b.DB, lock, func(*sql.Tx) error { return nil })
	}), dibs.ErrReleased)
	b.worked(1)
	lock, _ = b.take(b.locker, "k")
	b.many(10, lock)
	b.worked(11)
}

// inTxContextEnds: the transaction is rolled back, and the context's error is there, whatever the work returns.
func inTxContextEnds(e *env) {
	b := newFenceBed(e, dibs.Config{})
	lock, _ := b.take(b.locker, "k")
	before := b.DB.Stats().InUse
	why, boom := errors.New("why"), errors.New("boom")
	for _, says := range []error{nil, boom} {
		for name, in := range b.both() {
			ctx, cancel := context.WithCancelCause(b.Context())
			err := in(ctx, b.DB, lock, func(tx *sql.Tx) error {
				_ = b.add(tx)
				cancel(why)
				return says
			})
			if !errors.Is(err, context.Canceled) || !errors.Is(err, why) || says != nil && !errors.Is(err, boom) || errors.Is(err, dibs.ErrOutcomeUnknown) {
				b.Errorf("%s: %v", name, err)
			}
			if err := in(ctx, b.DB, lock, b.add); !errors.Is(err, context.Canceled) {
				b.Errorf("%s, begun after its context: %v", name, err)
			}
		}
	}
	b.worked(0)
	b.ok(lock.Err(), "the lock")
	b.back(before)
}

// lostUnderTheWork: the lease ends while the work goes on; where others can write meanwhile another has it then.
func lostUnderTheWork(e *env) {
	b := newFenceBed(e, dibs.Config{})
	for name, in := range b.both() {
		for _, what := range []string{"by its context", "by another context"} {
			key := name + " " + what
			lock, work := b.take(b.locker, key, dibs.TTL(time.Second+10*b.f.RoundTrip))
			ctx := b.within()
			if what == "by its context" {
				ctx = work
			}
			b.says(key, in(ctx, b.DB, lock, func(tx *sql.Tx) error {
				if !b.OneWriter {
					b.must(b.Lose["taken over, same token"], []byte(key))
				}
				_, err := tx.Exec("UPDATE work SET n = n + 1 WHERE id = 1") // too late already, on a busy machine
				<-work.Done()
				return err
			}), dibs.ErrLost)
		}
	}
	b.worked(0)
}

// sectionOver: a section that ends while the work goes on ends its transaction, and the next one's lease stays as it is.
func sectionOver(e *env) {
	b := newFenceBed(e, dibs.Config{})
	for name, in := range b.both() {
		lock, _ := b.take(b.locker, "k")
		var next *dibs.Lock
		b.says(name, in(b.within(), b.DB, lock, func(tx *sql.Tx) error {
			_ = b.add(tx)
			b.ok(lock.Release(), "release")
			next, _ = b.take(b.locker, "k") // the next section
			return nil
		}), dibs.ErrReleased)
		b.worked(0)
		b.ok(next.Release(), name+": the next one's release")
	}
}

func maxHoldOver(e *env) {
	b := newFenceBed(e, dibs.Config{})
	lock, _ := b.take(b.locker, "max", dibs.MaxHold(50*time.Millisecond))
	b.until(10*time.Second, "its max hold is over", func() bool { return errors.Is(lock.Err(), dibs.ErrMaxHold) })
	b.says("past its max hold", b.InTx(b.within(), b.DB, lock, b.add), dibs.ErrMaxHold)
	b.worked(0)
}
