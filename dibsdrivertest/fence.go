package dibsdrivertest

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// Transactions that are fenced by hand.
var fenceCases = []testcase{
	{name: "S7/fence", run: fence, needs: fences},
	{name: "S7/not_ours_any_more", run: notOursAnyMore, needs: fences},
	{name: "S7/Fact8/refused", run: fenceRefused, needs: fences},
	{name: "S7/release_waits_for_the_commit", run: releaseWaits, needs: fences},
}

// ownTx is as a library's own type around a transaction.
type ownTx struct{ tx *sql.Tx }

func (w ownTx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return w.tx.QueryRowContext(ctx, query, args...)
}

func fence(e *env) {
	b := newFenceBed(e, dibs.Config{})
	lock, _ := b.take(b.locker, "k")
	other, _ := b.take(b.locker, "other")
	n := int64(0)
	for _, level := range append([]sql.IsolationLevel{sql.LevelDefault}, b.Levels...) {
		for _, wrap := range []func(*sql.Tx) FenceTx{func(tx *sql.Tx) FenceTx { return tx }, func(tx *sql.Tx) FenceTx { return ownTx{tx} }} {
			tx := b.begin(level)
			b.ok(b.add(tx), "add")
			for _, lock := range []*dibs.Lock{lock, lock, other} { // twice does no harm
				b.ok(b.Fence(b.within(), wrap(tx), lock), "fence "+lock.Key())
			}
			b.ok(tx.Commit(), "commit")
			n++
			b.worked(n)
		}
	}
	conn, err := b.DB.Conn(b.Context())
	b.ok(err, "a connection")
	defer conn.Close()
	_, err = conn.ExecContext(b.Context(), b.Begin)
	b.ok(err, b.Begin)
	b.ok(b.Fence(b.within(), conn, lock), "fence a connection's transaction")
	_, err = conn.ExecContext(b.Context(), "COMMIT")
	b.ok(err, "commit")
	b.ok(lock.Release(), "release")
	b.ok(other.Release(), "release")
}

// notOursAnyMore: whatever has become of the lease, the transaction is refused, before its process has heard of it.
func notOursAnyMore(e *env) {
	b := newFenceBed(e, dibs.Config{TTL: time.Hour})
	for _, what := range Losses {
		change := b.Lose[what]
		if change == "" {
			b.Fatalf("the store does not say how to make this of a lease: %s", what)
		}
		lock, _ := b.take(b.locker, what)
		b.must(change, []byte(what))
		tx := b.begin(sql.LevelDefault)
		b.ok(b.add(tx), "add")
		err := b.Fence(b.within(), tx, lock)
		b.says(what, err, dibs.ErrLost)
		if err != nil && (!strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), b.Place) || errors.Is(err, dibs.ErrUnavailable)) {
			b.Errorf("%s: the error does not say enough: %v", what, err)
		}
		b.ok(tx.Rollback(), "rollback")
		for name, in := range b.both() {
			b.says(name+": "+what, in(b.within(), b.DB, lock, b.add), dibs.ErrLost)
		}
		// Lost while the work is done, by the transaction's own hand.
		inside := "inside " + what
		lock, _ = b.take(b.locker, inside)
		b.says(inside, b.InTx(b.within(), b.DB, lock, func(tx *sql.Tx) error {
			_, err := tx.Exec(change, []byte(inside))
			return errors.Join(err, b.add(tx))
		}), dibs.ErrLost)
	}
	b.worked(0)
}

// disguised is a driver of another kind.
type disguised struct{ dibsdriver.Driver }

// fenceRefused: what cannot be fenced is refused at once, before anything waits.
func fenceRefused(e *env) {
	b := newFenceBed(e, dibs.Config{})
	lock, _ := b.take(b.locker, "k")
	begin := func() *sql.Tx { return b.begin(sql.LevelDefault) }
	good := begin()
	var noTx *sql.Tx
	done, ended := begin(), begin()
	b.ok(errors.Join(done.Commit(), ended.Rollback()), "ending transactions")
	autocommit, err := b.DB.Conn(b.Context())
	b.ok(err, "a connection")
	defer autocommit.Close()
	theirs, _ := b.take(b.lockerOn(disguised{b.driver().(FencingDriver).Fencing().Driver}, dibs.Config{}), "theirs")
	for what, c := range map[string]struct {
		tx   FenceTx
		lock *dibs.Lock
		says string
	}{
		"nil":                 {nil, lock, "no transaction (nil)"},
		"nil *sql.Tx":         {noTx, lock, "no transaction (nil *sql.Tx)"},
		"*sql.DB":             {b.DB, lock, "*sql.DB"},
		"autocommit":          {autocommit, lock, b.Autocommit},
		"committed":           {done, lock, "has ended"},
		"rolled back":         {ended, lock, "has ended"},
		"another kind's lock": {good, theirs, "another kind"},
	} {
		began := time.Now()
		err := b.Fence(b.within(), c.tx, c.lock)
		b.says(what, err, dibsdriver.ErrRefused)
		if err != nil && !strings.Contains(err.Error(), c.says) {
			b.Errorf("%s: %v", what, err)
		}
		if err != nil && b.Secret != "" && strings.Contains(err.Error(), b.Secret) {
			b.Errorf("%s: the error tells a secret", what)
		}
		if took := time.Since(began); took > 5*time.Second {
			b.Errorf("%s: it took %s", what, took)
		}
	}
	b.says("committed", b.Fence(b.within(), done, lock), sql.ErrTxDone)
	b.says("nil lock", b.Fence(b.within(), good, nil), dibs.ErrReleased)
	b.says("nil lock, no transaction", b.Fence(b.within(), autocommit, nil), dibs.ErrReleased)
	for name, in := range b.both() {
		b.says(name+": nil lock", in(b.within(), b.DB, nil, nil), dibs.ErrReleased)
		b.says(name+": nil db", in(b.within(), nil, lock, nil), dibsdriver.ErrRefused)
		b.says(name+": another kind's lock", in(b.within(), b.DB, theirs, nil), dibsdriver.ErrRefused)
	}
	b.ok(lock.Release(), "release")
	gone := func(when string) {
		b.says(when, b.Fence(b.within(), good, lock), dibs.ErrReleased)
		b.says(when+", no transaction", b.Fence(b.within(), autocommit, lock), dibs.ErrReleased)
		for name, in := range b.both() {
			b.says(name+": "+when, in(b.within(), b.DB, lock, nil), dibs.ErrReleased)
		}
	}
	gone("released")
	held, _ := b.take(b.locker, "k")
	gone("released and taken again")
	b.ok(b.add(good), "add")
	b.ok(b.Fence(b.within(), good, held), "fence by the new lock")
	b.ok(good.Rollback(), "rollback")
}

// releaseWaits: until a fenced transaction is over its lease is neither released, nor handed to the next in this process, nor to anybody else.
func releaseWaits(e *env) {
	b := newFenceBed(e, dibs.Config{RequestTimeout: 30 * time.Second})
	_, other := b.process(dibs.Config{RequestTimeout: 30 * time.Second})
	lock, _ := b.take(b.locker, "k")
	owner := b.store.Peek(b, "k")
	taken := make(chan error, 3)
	acquire := func(l *dibs.Locker) {
		lock, _, err := l.Acquire(b.within(), "k")
		taken <- err
		_ = lock.Release()
	}
	go acquire(b.locker) // it stands in line already
	tx := b.begin(sql.LevelDefault)
	b.ok(b.add(tx), "add")
	b.ok(b.Fence(b.within(), tx, lock), "fence")
	released := make(chan error, 1)
	go func() { released <- lock.Release() }()
	b.until(10*time.Second, "it is being released", func() bool { return lock.Err() != nil })
	go acquire(b.locker)
	go acquire(other)
	select { // enough for a release, and for a handoff, many times
	case err := <-released:
		b.Errorf("released before the commit was over: %v", err)
		released <- err
	case err := <-taken:
		b.Errorf("taken before the commit was over: %v", err)
		taken <- err
	case <-time.After(500 * time.Millisecond):
	}
	if now := b.store.Peek(b, "k"); !now.Held || now.Token != owner.Token {
		b.Errorf("before the commit was over, the lease was %+v; at first it was %+v", now, owner)
	}
	b.ok(tx.Commit(), "commit")
	for _, c := range []chan error{released, taken, taken, taken} {
		b.ok(receive(e, c), "after the commit")
	}
	b.worked(1)
}
