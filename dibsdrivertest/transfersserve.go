package dibsdrivertest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dibs-go/dibs"
)

// Fenced transactions of a taker, from the inside. They do not look at the work's context: nothing but the fence, if there is one, keeps them from
// committing when their lock has passed on.

// fenceOrder is what a taker is told of a transaction.
type fenceOrder struct {
	// Release releases the lock by the commit, Fenced has a fence at all.
	Release, Fenced bool
	// OneWriter lets it read before its transaction, in which nobody else could write.
	OneWriter bool
}

// slowTx is a transaction that waits between what it reads and what it writes.
type slowTx struct {
	goOn chan struct{}
	done chan error
}

// begin begins one: it returns when it has read, or has failed.
func (t *taker) begin(o order) error {
	f, ok := t.driver.(FencingDriver)
	if !ok {
		return errors.ErrUnsupported
	}
	with, lock := f.Fencing(), t.lock(o.Key)
	in := with.InTx
	if o.Fence.Release {
		in = with.InTxAndRelease
	}
	s := slowTx{make(chan struct{}), make(chan error, 1)}
	t.mu.Lock()
	t.slow[o.Key] = s
	t.mu.Unlock()
	read := make(chan error, 2)
	go func() {
		n := 0
		look := func(q FenceTx) error {
			err := q.QueryRowContext(context.Background(), "SELECT n FROM work WHERE id = 1").Scan(&n)
			read <- err
			if err == nil {
				<-s.goOn
			}
			return err
		}
		var err error
		if o.Fence.OneWriter {
			err = look(with.DB)
		}
		if err == nil {
			err = in(context.Background(), with.DB, lock, func(tx *sql.Tx) error {
				if !o.Fence.OneWriter {
					if err := look(tx); err != nil {
						return err
					}
				}
				_, err := tx.Exec(fmt.Sprintf("UPDATE work SET n = %d WHERE id = 1", n+1))
				return err
			})
		}
		read <- err // if it came to no reading
		s.done <- err
	}()
	return <-read
}

// commit lets it go on, and tells how it ended.
func (t *taker) commit(key string) error {
	t.mu.Lock()
	s := t.slow[key]
	t.mu.Unlock()
	close(s.goOn)
	return <-s.done
}

// transfer moves money between accounts until it is killed, as careless programs do: it reads both balances, computes, and writes what it has computed.
func (t *taker) transfer(o *fenceOrder) error {
	f, ok := t.driver.(FencingDriver)
	if !ok {
		return errors.ErrUnsupported
	}
	with := f.Fencing()
	for {
		lock, _, err := t.locker.Acquire(context.Background(), bankersKey, dibs.TTL(lifetime))
		if errors.Is(err, dibs.ErrUnavailable) { // somebody was frozen with what it needs, or we were
			continue
		}
		if err != nil {
			return err
		}
		for range aTurn {
			if err := transferOne(with, lock, o.Fenced); errors.Is(err, dibs.ErrLost) {
				t.say(report{What: "refused"})
				break
			}
		}
		_ = lock.Release()
	}
}

func transferOne(with Fencing, lock *dibs.Lock, fenced bool) error {
	from, to, amount := rand.IntN(accounts), rand.IntN(accounts-1), 1+rand.IntN(50)
	if to >= from {
		to++
	}
	var has, gets int
	err := with.DB.QueryRow(fmt.Sprintf("SELECT (SELECT n FROM work WHERE id = %d), (SELECT n FROM work WHERE id = %d)", from, to)).Scan(&has, &gets)
	if err != nil {
		return err
	}
	time.Sleep(rand.N(4 * time.Millisecond)) // it thinks
	write := func(tx *sql.Tx) error {
		for _, statement := range []string{
			fmt.Sprintf("UPDATE work SET n = %d WHERE id = %d", has-amount, from),
			fmt.Sprintf("UPDATE work SET n = %d WHERE id = %d", gets+amount, to),
			fmt.Sprintf("INSERT INTO journal (account_from, account_to, amount) VALUES (%d, %d, %d)", from, to, amount),
		} {
			if _, err := tx.Exec(statement); err != nil {
				return err
			}
		}
		return nil
	}
	if fenced {
		return with.InTx(context.Background(), with.DB, lock, write)
	}
	tx, err := with.DB.Begin()
	if err != nil {
		return err
	}
	if err := write(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
