package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
)

// TestFact9_TransactionEndsInside: whatever the work does that ends the transaction, and with it the lock, Do says that the outcome is not known, also if
// the work fails later; and what the work writes after it is rolled back.
func TestFact9_TransactionEndsInside(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		db := b.open(t, b.Admin, b.database, "") // which may run DDL
		r := b.rowsOn(t, db, nil)
		n := 0
		for _, statement := range []string{
			"CREATE TABLE x1 (id INT)", "ALTER TABLE x1 ADD COLUMN v INT", "TRUNCATE x1", "DROP TABLE x1", "ANALYZE TABLE stock", "BEGIN", "START TRANSACTION", "COMMIT",
			"COMMIT AND CHAIN", "ROLLBACK", "SET autocommit = 1", "LOCK TABLES stock WRITE", "tx.Commit", "tx.Rollback",
		} {
			for _, fails := range []bool{false, true} {
				n++
				err := r.Do(within(t), "a", func(ctx context.Context, tx *sql.Tx) error {
					if err := set(1, n)(ctx, tx); err != nil {
						return err
					}
					switch statement {
					case "tx.Commit":
						_ = tx.Commit()
					case "tx.Rollback":
						_ = tx.Rollback()
					default:
						if _, err := tx.ExecContext(ctx, strings.Replace(statement, "x1", fmt.Sprint("x", n), 1)); err != nil && !strings.Contains(statement, "x1") {
							t.Errorf("%s: %v", statement, err)
						}
					}
					if b.isLocked(t, "a") && !strings.HasPrefix(statement, "LOCK") {
						t.Errorf("%s: the row is locked still", statement)
					}
					_ = set(2, 77)(ctx, tx)
					if fails {
						return errTest
					}
					return nil
				})
				if !errors.Is(err, dibs.ErrOutcomeUnknown) || !errors.Is(err, dibs.ErrLost) || fails != errors.Is(err, errTest) {
					t.Errorf("%s, work fails %v: %v", statement, fails, err)
				}
				committed := b.stock(t, 1) == int64(n)
				if undone := strings.Contains(strings.ToUpper(statement), "ROLLBACK"); committed == undone {
					t.Errorf("%s: what came before is committed: %v", statement, committed)
				}
				if statement != "SET autocommit = 1" && b.stock(t, 2) != 100 { // that is what it asks for
					t.Errorf("%s: what came after is committed", statement)
				}
				b.must(t, b.admin, "UPDATE stock SET n = 100 WHERE id = 2")
			}
		}
		if err := r.Do(within(t), "a", set(3, 3)); err != nil {
			t.Error(err)
		}
	})
}

// TestFact10_RowsSavepoints: a work may use savepoints, and go back to its first statement: the lock stays, and Do commits what is left.
func TestFact10_RowsSavepoints(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		r := b.rows(t, "")
		err := r.Do(within(t), "a", func(ctx context.Context, tx *sql.Tx) error {
			for _, s := range []string{"SAVEPOINT first", "UPDATE stock SET n = 1 WHERE id = 1", "ROLLBACK TO SAVEPOINT first", "UPDATE stock SET n = 2 WHERE id = 2"} {
				if _, err := tx.ExecContext(ctx, s); err != nil {
					return err
				}
				if !b.isLocked(t, "a") {
					t.Errorf("after %q the lock is gone", s)
				}
			}
			return nil
		})
		if err != nil || b.stock(t, 1) != 100 || b.stock(t, 2) != 2 {
			t.Error(err, b.stock(t, 1), b.stock(t, 2))
		}
	})
}

// sessionOf is the number of the work's session.
func sessionOf(ctx context.Context, tx *sql.Tx) (id int64, err error) {
	err = tx.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id)
	return id, err
}

// TestFact11_B29_SilentHolder: a work that is silent on its connection learns within a second that the server has ended it, by wait_timeout or by KILL; and is
// told the truth: not committed. Another process has the row by then.
func TestFact11_B29_SilentHolder(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		for _, killed := range []bool{false, true} {
			for _, asked := range []bool{false, true} { // whether the work goes on after the end of its context
				r := b.rows(t, "wait_timeout=2")
				err := r.Do(within(t), "a", func(ctx context.Context, tx *sql.Tx) error {
					if err := set(1, 5)(ctx, tx); err != nil {
						return err
					}
					id, err := sessionOf(ctx, tx)
					if err != nil {
						return err
					}
					if killed {
						b.must(t, b.admin, fmt.Sprint("KILL ", id))
					}
					eventually(t, "the row is free", func() bool { return !b.isLocked(t, "a") })
					free := time.Now()
					select {
					case <-ctx.Done():
					case <-time.After(10 * time.Second):
						t.Error("the work does not hear of it")
					}
					if took := time.Since(free); took > 2*time.Second || context.Cause(ctx) != dibs.ErrLost {
						t.Errorf("it took %s, and the cause is %v", took, context.Cause(ctx))
					}
					if asked {
						return context.Cause(ctx)
					}
					return nil
				})
				if !errors.Is(err, dibs.ErrLost) || errors.Is(err, dibs.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "not committed") || b.stock(t, 1) != 100 {
					t.Errorf("killed %v: %v", killed, err)
				}
			}
		}
	})
}

// TestB29_LongHold: a long hold is no loss, and its end leaves nothing.
func TestB29_LongHold(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		db := b.pool(t, "")
		r := b.rowsOn(t, db, nil)
		err := r.Do(within(t), "a", func(ctx context.Context, tx *sql.Tx) error {
			eventually(t, "the watch looks", func() bool {
				r.watch.mu.Lock()
				defer r.watch.mu.Unlock()
				return len(r.watch.holds) == 1
			})
			time.Sleep(3 * rowWatchEvery)
			return ctx.Err()
		})
		if err != nil {
			t.Error(err)
		}
		b.nothingLeft(t, db)
	})
}

// TestFact13_B44_FreshReads: 4 processes with 25 buyers each, who buy twice, from a stock of 100, though the sessions are at another isolation level: all is sold, and
// nothing twice.
func TestFact13_B44_FreshReads(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"REPEATABLE-READ", "SERIALIZABLE"} {
		t.Run(level, func(t *testing.T) {
			onBoth(t, func(t *testing.T, b *bed) {
				params := "transaction_isolation=%27" + level + "%27"
				if !b.mysql { // and fact 14: there a row that has changed since the snapshot is error 1020
					params = "tx_isolation=%27" + level + "%27&innodb_snapshot_isolation=1"
				}
				var orders, refused atomic.Int64
				var wg sync.WaitGroup
				for range 4 {
					r := b.rows(t, params)
					for range 25 {
						wg.Go(func() {
							for range 2 {
								err := r.Do(within(t), "a", func(ctx context.Context, tx *sql.Tx) error {
									var other, n int
									if err := tx.QueryRowContext(ctx, "SELECT n FROM stock WHERE id = 2").Scan(&other); err != nil {
										return err
									}
									if err := tx.QueryRowContext(ctx, "SELECT n FROM stock WHERE id = 1").Scan(&n); err != nil {
										return err
									}
									if n == 0 {
										return errTest
									}
									return set(1, n-1)(ctx, tx)
								})
								switch {
								case err == nil:
									orders.Add(1)
								case errors.Is(err, errTest):
									refused.Add(1)
								default:
									t.Error(err)
								}
							}
						})
					}
				}
				wg.Wait()
				if n := b.stock(t, 1); n != 0 || orders.Load() != 100 || refused.Load() != 100 {
					t.Errorf("%d are left, %d orders, %d refused", n, orders.Load(), refused.Load())
				}
			})
		})
	}
}

// TestFact14_Snapshot: where a row that has changed since the snapshot is an error (1020, MariaDB), works meet none, since they have no snapshot; and one that a work
// brings along counts as rolled back, like 1213.
func TestFact14_Snapshot(t *testing.T) {
	t.Parallel()
	b := newBed(t, kinds[1].shared(t), true) // MySQL has no such thing
	db := b.pool(t, "innodb_snapshot_isolation=1&tx_isolation=%27REPEATABLE-READ%27")
	r := b.rowsOn(t, db, nil)
	update := func(tx *sql.Tx) error {
		var n int
		if err := tx.QueryRow("SELECT n FROM stock WHERE id = 2").Scan(&n); err != nil {
			t.Error(err)
		}
		b.must(t, b.admin, "UPDATE stock SET n = n + 1 WHERE id = 3")
		return set(3, 5)(t.Context(), tx)
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := update(tx); code(err) != 1020 {
		t.Errorf("a bare transaction: %v", err)
	}
	_ = tx.Rollback()
	if err := r.Do(within(t), "a", func(_ context.Context, tx *sql.Tx) error { return update(tx) }); err != nil || b.stock(t, 3) != 5 {
		t.Error(err)
	}
	for number, want := range map[uint16]bool{1020: true, 1213: true, 1205: true, 1062: false, 1317: false} {
		if got := rolledBack(fmt.Errorf("the work: %w", serverError(number))); got != want {
			t.Errorf("%d: rolled back %v", number, got)
		}
	}
	b.nothingLeft(t, db)
}

// TestFact15_DirtySessions: settings that others have left in a pool's sessions change nothing, a transaction that they have left is not joined; and the
// sessions are left as they were.
func TestFact15_DirtySessions(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		kind := "tx"
		if b.mysql {
			kind = "transaction"
		}
		sessions := "SELECT CONCAT_WS(' ', @@" + kind + "_isolation, @@" + kind + "_read_only, @@autocommit, @@time_zone, @@innodb_lock_wait_timeout, @@sql_mode)"
		for _, dirt := range []string{
			"SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED", "SET SESSION TRANSACTION READ ONLY",
			"SET autocommit = 0", "SET time_zone = '+13:00', innodb_lock_wait_timeout = 1, sql_mode = ''", "SET TRANSACTION READ ONLY", "BEGIN", "SELECT 1",
		} {
			db := b.pool(t, "")
			r := b.rowsOn(t, db, nil)
			db.SetMaxIdleConns(0)
			db.SetMaxIdleConns(1)
			if _, err := db.Exec(dirt); err != nil {
				t.Fatal(err)
			}
			var before, after, inside string
			read := func(into *string) {
				t.Helper()
				if err := db.QueryRow(sessions).Scan(into); err != nil {
					t.Fatal(err)
				}
			}
			if dirt == "BEGIN" {
				b.must(t, db, "UPDATE stock SET n = 5 WHERE id = 2") // by somebody who has forgotten it
			} else if dirt != "SET autocommit = 0" {
				read(&before)
			}
			for _, result := range []error{nil, errTest} {
				err := r.Do(within(t), "a", func(ctx context.Context, tx *sql.Tx) error {
					if err := set(1, 1)(ctx, tx); err != nil {
						return err
					}
					b.must(t, b.admin, "UPDATE stock SET n = n + 1 WHERE id = 3")
					var was, is int
					if err := tx.QueryRowContext(ctx, "SELECT n FROM stock WHERE id = 3").Scan(&was); err != nil {
						return err
					}
					other, err := b.admin.Begin()
					if err != nil {
						return err
					}
					b.must(t, other, "UPDATE stock SET n = n + 1 WHERE id = 3")
					if err := tx.QueryRowContext(ctx, "SELECT n FROM stock WHERE id = 3").Scan(&is); err != nil || is != was {
						t.Errorf("%s: it reads what is not committed: %d, %d, %v", dirt, was, is, err)
					}
					if err := other.Commit(); err != nil {
						return err
					}
					if err := tx.QueryRowContext(ctx, "SELECT n FROM stock WHERE id = 3").Scan(&is); err != nil || is != was+1 {
						t.Errorf("%s: it does not read what is: %d, %d, %v", dirt, was, is, err)
					}
					if err := tx.QueryRowContext(ctx, sessions).Scan(&inside); err != nil {
						return err
					}
					return result
				})
				if !errors.Is(err, result) {
					t.Errorf("%s: %v", dirt, err)
				}
			}
			if read(&after); before != "" && before != after {
				t.Errorf("%s: the session was %q, and is %q", dirt, before, after)
			}
			if dirt == "BEGIN" && b.stock(t, 2) != 100 {
				t.Error("a forgotten transaction was committed")
			}
			b.nothingLeft(t, db)
		}
	})
}
