package dibssqlite

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/dibs-go/dibs"
)

const fencedDSN = "?_pragma=busy_timeout(10000)&_pragma=synchronous(1)"

func roleLocker(path string) (*sql.DB, *dibs.Locker, error) {
	db, err := sql.Open("sqlite", path+fencedDSN)
	if err != nil {
		return nil, nil, err
	}
	l, err := dibs.New(New(db, nil), nil)
	return db, l, err
}

// holdRole takes key k, reads, waits for a word, and writes in a transaction that is fenced by the lock. It does not look at the work's context: nothing
// but the fence keeps it from committing.
func holdRole(args []string) error {
	db, l, err := roleLocker(args[0])
	if err != nil {
		return err
	}
	ctx := context.Background()
	lock, _, err := l.Acquire(ctx, "k", dibs.TTL(time.Second))
	if err != nil {
		return err
	}
	in := InTx
	if args[1] == "release" {
		in = InTxAndRelease
	}
	var n int
	if err := db.QueryRow("SELECT n FROM work WHERE id = 1").Scan(&n); err != nil {
		return err
	}
	fmt.Println("read")
	words := bufio.NewScanner(os.Stdin)
	words.Scan()
	err = in(ctx, db, lock, func(tx *sql.Tx) error {
		_, err := tx.Exec("UPDATE work SET n = ? WHERE id = 1", n+1)
		return err
	})
	switch {
	case err == nil:
		fmt.Println("committed")
	case errors.Is(err, dibs.ErrLost):
		fmt.Println("lost")
	default:
		fmt.Println(err)
	}
	words.Scan()
	return nil
}

const (
	accounts = 5
	lifetime = 400 * time.Millisecond
	aTurn    = 20 // transfers under one lock
)

// transferRole moves money between accounts until it is killed, as careless programs do: it reads both balances, computes, and writes what it has
// computed. Nothing but the lock keeps others out meanwhile, and nothing but the fence, if there is one, keeps it from committing when its lock has
// passed on.
func transferRole(args []string) error {
	fenced, err := strconv.ParseBool(args[1])
	if err != nil {
		return err
	}
	db, l, err := roleLocker(args[0])
	if err != nil {
		return err
	}
	ctx := context.Background()
	for {
		lock, _, err := l.Acquire(ctx, "accounts", dibs.TTL(lifetime))
		if errors.Is(err, dibs.ErrUnavailable) { // somebody was frozen with the file, or we were
			continue
		}
		if err != nil {
			return err
		}
		for range aTurn {
			if err := transferOne(ctx, db, lock, fenced); errors.Is(err, dibs.ErrLost) {
				fmt.Println("refused")
				break
			}
		}
		_ = lock.Release()
	}
}

func transferOne(ctx context.Context, db *sql.DB, lock *dibs.Lock, fenced bool) error {
	from, to, amount := rand.IntN(accounts), rand.IntN(accounts-1), 1+rand.IntN(50)
	if to >= from {
		to++
	}
	var has, gets int
	if err := db.QueryRow("SELECT (SELECT n FROM work WHERE id = ?), (SELECT n FROM work WHERE id = ?)", from, to).Scan(&has, &gets); err != nil {
		return err
	}
	time.Sleep(rand.N(4 * time.Millisecond)) // it thinks
	write := func(tx *sql.Tx) error {
		for _, s := range []struct {
			query string
			args  []any
		}{
			{"UPDATE work SET n = ? WHERE id = ?", []any{has - amount, from}},
			{"UPDATE work SET n = ? WHERE id = ?", []any{gets + amount, to}},
			{"INSERT INTO journal (account_from, account_to, amount) VALUES (?, ?, ?)", []any{from, to, amount}},
		} {
			if _, err := tx.Exec(s.query, s.args...); err != nil {
				return err
			}
		}
		return nil
	}
	if fenced {
		return InTx(ctx, db, lock, write)
	}
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	if err := write(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
