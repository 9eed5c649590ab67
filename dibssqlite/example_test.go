package dibssqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibssqlite"
)

// shop is a database with an account, and locks in it.
func shop() (db *sql.DB, locker *dibs.Locker, end func()) {
	dir, err := os.MkdirTemp("", "dibs")
	if err != nil {
		log.Fatal(err)
	}
	if db, err = sql.Open("sqlite", filepath.Join(dir, "shop.db")); err != nil {
		log.Fatal(err)
	}
	if locker, err = dibs.New(dibssqlite.New(db, nil), nil); err != nil {
		log.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, fence INTEGER NOT NULL DEFAULT 0); " +
		"CREATE TABLE done (token INTEGER PRIMARY KEY); INSERT INTO accounts (id, balance) VALUES (7, 100)"); err != nil {
		log.Fatal(err)
	}
	return db, locker, func() {
		locker.Shutdown(context.Background())
		db.Close()
		os.RemoveAll(dir)
	}
}

// What was read before the transaction is still true when it commits, or it does not commit, even if this process is frozen on its way.
func ExampleInTx() {
	db, locker, end := shop()
	defer end()
	err := locker.Do(context.Background(), "account/7", func(ctx context.Context) error {
		lock, _ := dibs.FromContext(ctx, "account/7")
		var balance int
		if err := db.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = 7").Scan(&balance); err != nil {
			return err
		}
		return dibssqlite.InTx(ctx, db, lock, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = ? WHERE id = 7", balance-10)
			return err
		})
	})
	var balance int
	fmt.Println(err, db.QueryRow("SELECT balance FROM accounts").Scan(&balance), balance)
	// Output: <nil> <nil> 90
}

// When the disk failed during a commit, a row that carries the fencing token tells whether it took effect: tokens are never given twice.
func ExampleInTx_outcomeUnknown() {
	db, locker, end := shop()
	defer end()
	lock, ctx, err := locker.Acquire(context.Background(), "account/7")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release()
	err = dibssqlite.InTx(ctx, db, lock, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 7"); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO done (token) VALUES (?)", lock.Token())
		return err
	})
	if err != nil && !errors.Is(err, dibs.ErrOutcomeUnknown) {
		log.Fatal(err) // it was not committed
	}
	var committed bool
	err = db.QueryRow("SELECT EXISTS (SELECT 1 FROM done WHERE token = ?)", lock.Token()).Scan(&committed)
	fmt.Println(err, committed)
	// Output: <nil> true
}

// An earlier holder, which does not know that its lock has passed on, is refused by the row itself.
func ExampleGuard() {
	db, locker, end := shop()
	defer end()
	ctx := context.Background()
	account := dibssqlite.Guard{Table: "accounts", Where: "id = ?", Args: []any{7}}
	var tokens []int64
	for range 2 {
		_ = locker.Do(ctx, "account/7", func(ctx context.Context) error {
			lock, _ := dibs.FromContext(ctx, "account/7")
			tokens = append(tokens, lock.Token())
			return nil
		})
	}
	fmt.Println(account.Update(ctx, db, tokens[1], "balance = ?", 80))
	fmt.Println(errors.Is(account.Update(ctx, db, tokens[0], "balance = ?", 90), dibs.ErrLost))
	// Output:
	// <nil>
	// true
}
