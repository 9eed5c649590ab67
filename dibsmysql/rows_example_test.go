package dibsmysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsmysql"
)

// errSoldOut is the work's own error: Do rolls back, and returns it.
var errSoldOut = errors.New("sold out")

// Sell the last item once: the row lock and the business data are one transaction.
func ExampleRows_Do() {
	db, err := sql.Open("mysql", "app:password@tcp(db.example.com)/app")
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	rows, err := dibsmysql.NewRows(ctx, db, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := rows.Register(ctx, "stock"); err != nil {
		log.Fatal(err)
	}
	err = rows.Do(ctx, "stock", func(ctx context.Context, tx *sql.Tx) error {
		var left int
		if err := tx.QueryRowContext(ctx, "SELECT n FROM stock WHERE item = 7").Scan(&left); err != nil {
			return err
		}
		if left == 0 {
			return errSoldOut
		}
		_, err := tx.ExecContext(ctx, "UPDATE stock SET n = n - 1 WHERE item = 7")
		return err
	}, dibsmysql.MaxWait(3*time.Second))
	switch {
	case err == nil:
		fmt.Println("sold")
	case errors.Is(err, errSoldOut):
		fmt.Println("nothing is left")
	case errors.Is(err, dibs.ErrBusy):
		fmt.Println("too many buyers, try again")
	case errors.Is(err, dibs.ErrOutcomeUnknown):
		fmt.Println("look whether it was sold:", err)
	default:
		fmt.Println("not sold:", err)
	}
}
