package dibsmysql_test

import (
	"context"
	"database/sql"
	"errors"
	"log"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsmysql"
)

var (
	ctx    = context.Background()
	db     *sql.DB
	locker *dibs.Locker // on dibsmysql.New(db, nil)
)

// The transfer is made while the lock is held, or not at all, even if this process is frozen on its way.
func ExampleInTx() {
	err := locker.Do(ctx, "account/7", func(ctx context.Context) error {
		lock, _ := dibs.FromContext(ctx, "account/7")
		return dibsmysql.InTx(ctx, db, lock, func(tx *sql.Tx) error {
			var balance int
			if err := tx.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = 7").Scan(&balance); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = ? WHERE id = 7", balance-10)
			return err
		})
	})
	if err != nil {
		log.Print(err)
	}
}

// When the answer to a commit was lost, a row that carries the fencing token tells whether it took effect: tokens are never given twice.
func ExampleInTx_outcomeUnknown() {
	lock, ctx, err := locker.Acquire(ctx, "account/7")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release()
	err = dibsmysql.InTx(ctx, db, lock, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 7"); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO done (token) VALUES (?)", lock.Token())
		return err
	})
	if errors.Is(err, dibs.ErrOutcomeUnknown) {
		// A locking read waits until the server has ended what is left of the transaction.
		var token int64
		err = db.QueryRowContext(context.WithoutCancel(ctx), "SELECT token FROM done WHERE token = ? FOR UPDATE", lock.Token()).Scan(&token)
		switch {
		case err == nil:
			log.Print("it was committed")
		case errors.Is(err, sql.ErrNoRows):
			log.Print("it was not committed, and can be done again")
		}
	}
}

// With the work's last transaction the lock is released, too.
func ExampleInTxAndRelease() {
	err := locker.Do(ctx, "nightly", func(ctx context.Context) error {
		lock, _ := dibs.FromContext(ctx, "nightly")
		return dibsmysql.InTxAndRelease(ctx, db, lock, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE reports SET done = TRUE WHERE day = CURRENT_DATE")
			return err
		})
	})
	if err != nil {
		log.Print(err)
	}
}

// A transaction that somebody else begins and commits: a web framework, say.
func ExampleFence() {
	lock, ctx, err := locker.Acquire(ctx, "account/7")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release() // after the commit
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 7"); err != nil {
		log.Fatal(err)
	}
	if err := dibsmysql.Fence(ctx, tx, lock); err != nil { // the last before the commit
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
}

// The report is in another database server than the lock, where nothing can be fenced but the row itself.
func ExampleGuard() {
	var reports *sql.DB
	report := dibsmysql.Guard{Table: "reports", Where: "id = ?", Args: []any{7}}
	err := locker.Do(ctx, "report/7", func(ctx context.Context) error {
		lock, _ := dibs.FromContext(ctx, "report/7")
		// Claimed first: from here on no earlier holder changes what is read.
		if err := report.Update(ctx, reports, lock.Token(), ""); err != nil {
			return err
		}
		var total int
		if err := reports.QueryRowContext(ctx, "SELECT total FROM reports WHERE id = 7").Scan(&total); err != nil {
			return err
		}
		return report.Update(ctx, reports, lock.Token(), "total = ?, changed = NOW()", total+1)
	})
	if errors.Is(err, dibs.ErrLost) {
		log.Print("somebody else has the report by now")
	}
}
