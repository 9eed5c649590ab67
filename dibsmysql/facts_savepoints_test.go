package dibsmysql

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
)

// What a rollback to a savepoint does to row locks is in TestFact10_RowsSavepoints.

// leaseLocked asks the server whether the row of a lease is locked.
func (b *bed) leaseLocked(t testing.TB, key string) bool {
	t.Helper()
	var one int
	err := b.admin.QueryRow("SELECT 1 FROM dibs_leases WHERE lock_key = ? FOR UPDATE NOWAIT", []byte(key)).Scan(&one)
	if n := code(err); n == 3572 || n == 1205 {
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	return false
}

// TestFact10_Savepoints: a lock is no part of its caller's transaction. One that was acquired after a savepoint is still held, and renewed, when the
// transaction has gone back to that; and one that was released after it stays released.
func TestFact10_Savepoints(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		const ttl = 3 * time.Second
		db := b.pool(t, "")
		l, other := locker(t, New(db, nil), &dibs.Config{TTL: ttl}), b.locker(t, "", nil)
		for _, first := range []string{"SAVEPOINT s", "SELECT COUNT(*) FROM dibs_leases"} {
			t.Run(first, func(t *testing.T) {
				t.Parallel()
				tx := begin(t, db, sql.LevelDefault)
				b.must(t, tx, first)
				b.must(t, tx, "SAVEPOINT s")
				lock, work := hold(t, l, first)
				b.must(t, tx, "ROLLBACK TO SAVEPOINT s")
				if err := lock.Verify(within(t)); err != nil {
					t.Errorf("after the savepoint: %v", err)
				}
				select {
				case <-work.Done():
					t.Errorf("lost: %v", lock.Err())
				case <-time.After(3 * ttl / 2):
				}
				if _, _, err := other.TryAcquire(within(t), first); !errors.Is(err, dibs.ErrBusy) {
					t.Errorf("another asks for the key: %v", err)
				}
				b.must(t, tx, "SAVEPOINT s2")
				if err := lock.Release(); err != nil {
					t.Error(err)
				}
				b.must(t, tx, "ROLLBACK TO SAVEPOINT s2")
				if err := tx.Rollback(); err != nil {
					t.Error(err)
				}
				next, _, err := other.TryAcquire(within(t), first)
				if err != nil {
					t.Fatalf("the release was undone: %v", err)
				}
				if err := next.Release(); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

// TestFact10_FenceSavepoints: the fence of a transaction outlives a rollback to a savepoint: to one that was set after it; to one that was set before it,
// if there was a statement earlier still; and in InTx to any, since that fences when the work is done. Until the commit nobody else gets the row.
func TestFact10_FenceSavepoints(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		b.work(t)
		l := b.locker(t, "", nil)
		lock, _ := hold(t, l, "k")
		for _, before := range []bool{true, false} {
			tx := begin(t, b.pool(t, ""), sql.LevelReadCommitted)
			b.must(t, tx, add)
			if before {
				b.must(t, tx, "SAVEPOINT s")
			}
			if err := Fence(within(t), tx, lock); err != nil {
				t.Fatal(err)
			}
			if !before {
				b.must(t, tx, "SAVEPOINT s")
			}
			b.must(t, tx, add)
			b.must(t, tx, "ROLLBACK TO SAVEPOINT s")
			if !b.leaseLocked(t, "k") {
				t.Errorf("the savepoint was before the fence: %v; the row is free", before)
			}
			if err := tx.Commit(); err != nil {
				t.Error(err)
			}
		}
		b.worked(t, 2)

		w := newWire(t, b.Addr)
		w.set(func(w *wire) { w.holdAt = commitPacket })
		done := make(chan error, 1)
		go func() {
			done <- InTx(within(t), b.behind(t, w), lock, func(tx *sql.Tx) error {
				for _, statement := range []string{"SAVEPOINT s", add, "ROLLBACK TO SAVEPOINT s", add} {
					b.must(t, tx, statement)
				}
				return nil
			})
		}()
		<-w.held
		if !b.leaseLocked(t, "k") {
			t.Error("InTx commits, and the row is free")
		}
		close(w.resume)
		if err := <-done; err != nil {
			t.Error(err)
		}
		b.worked(t, 3)
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
	})
}
