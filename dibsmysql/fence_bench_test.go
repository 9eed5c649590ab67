package dibsmysql

import (
	"database/sql"
	"testing"
)

// BenchmarkInTx compares a small transaction with a fence and without.
func BenchmarkInTx(b *testing.B) {
	for _, k := range kinds {
		bed := newBed(b, k.shared(b), true)
		bed.work(b)
		db := bed.pool(b, "")
		lock, _ := hold(b, bed.locker(b, "", nil), "k")
		write := func(tx *sql.Tx) error { _, err := tx.Exec(add); return err }
		b.Run(k.name+"/fenced", func(b *testing.B) {
			for b.Loop() {
				if err := InTx(b.Context(), db, lock, write); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(k.name+"/bare", func(b *testing.B) {
			for b.Loop() {
				if err := unfenced(db, write); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
