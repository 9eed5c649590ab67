package dibsmysql

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// rows are row locks on a pool of its own, with the rows a, b and c and a table for the works, "stock".
func (b *bed) rows(t testing.TB, params string) *Rows {
	t.Helper()
	return b.rowsOn(t, b.pool(t, params), nil)
}

func (b *bed) rowsOn(t testing.TB, db *sql.DB, cfg *RowsConfig) *Rows {
	t.Helper()
	r, err := NewRows(within(t), db, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Register(within(t), "a", "b", "c"); err != nil {
		t.Fatal(err)
	}
	b.must(t, b.admin, "CREATE TABLE IF NOT EXISTS stock (id INT PRIMARY KEY, n INT NOT NULL) ENGINE=InnoDB")
	b.must(t, b.admin, "INSERT IGNORE INTO stock VALUES (1, 100), (2, 100), (3, 100)")
	return r
}

// set is what most works of the tests do.
func set(id, n int) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE stock SET n = ? WHERE id = ?", n, id)
		return err
	}
}

func (b *bed) stock(t testing.TB, id int) int64 {
	t.Helper()
	return b.number(t, "SELECT n FROM stock WHERE id = ?", id)
}

// holding has the row until free is called, by a work of its own.
func holding(t testing.TB, r *Rows, name string) (free func() error) {
	t.Helper()
	has, let, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- r.Do(t.Context(), name, func(context.Context, *sql.Tx) error {
			close(has)
			<-let
			return nil
		})
	}()
	select {
	case <-has:
	case err := <-done:
		t.Fatalf("holding %q: %v", name, err)
	}
	free = sync.OnceValue(func() error {
		close(let)
		return <-done
	})
	t.Cleanup(func() { _ = free() })
	return free
}

// lockedElsewhere lets a stranger have the row until unlock.
func (b *bed) lockedElsewhere(t testing.TB, name string) (unlock func()) {
	t.Helper()
	tx, err := b.admin.Begin()
	if err != nil {
		t.Fatal(err)
	}
	var id int64
	if err := tx.QueryRow("SELECT id FROM dibs_rows WHERE name = ? FOR UPDATE", name).Scan(&id); err != nil {
		t.Fatal(err)
	}
	unlock = sync.OnceFunc(func() { _ = tx.Rollback() })
	t.Cleanup(unlock)
	return unlock
}

// isLocked asks the server itself.
func (b *bed) isLocked(t testing.TB, name string) bool {
	t.Helper()
	var id int64
	err := b.admin.QueryRow("SELECT id FROM dibs_rows WHERE name = ? FOR UPDATE NOWAIT", name).Scan(&id)
	if n := code(err); n == 3572 || n == 1205 {
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	return false
}

// nothingLeft: no lock, no connection in use, no transaction.
func (b *bed) nothingLeft(t testing.TB, db *sql.DB) {
	t.Helper()
	eventually(t, "the connections are back", func() bool { return db.Stats().InUse == 0 })
	eventually(t, "no transaction is open", func() bool {
		// The server refreshes this view only if nobody has read it for 100 ms; other tests do.
		time.Sleep(200*time.Millisecond + rand.N(200*time.Millisecond))
		return b.number(t, "SELECT COUNT(*) FROM information_schema.innodb_trx AS x JOIN information_schema.processlist AS p ON p.id = x.trx_mysql_thread_id "+
			"WHERE p.user = ? AND p.db = ?", b.App.User, b.database) == 0
	})
	for _, name := range []string{"a", "b", "c"} {
		if b.isLocked(t, name) {
			t.Errorf("row %q is locked", name)
		}
	}
}
