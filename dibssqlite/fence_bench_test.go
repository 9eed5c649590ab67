package dibssqlite

import (
	"errors"
	"testing"
)

// BenchmarkInTx compares a small transaction with a fence and without.
func BenchmarkInTx(b *testing.B) {
	for _, way := range []string{"New", "New, rollback journal"} {
		bench := newBench(b, way)
		lock, _ := hold(b, locker(b, bench.driver, nil), "k")
		b.Run(way+"/fenced", func(b *testing.B) {
			for b.Loop() {
				if err := InTx(b.Context(), bench.db, lock, adds); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(way+"/bare", func(b *testing.B) {
			for b.Loop() {
				tx, err := bench.db.Begin()
				if err != nil {
					b.Fatal(err)
				}
				if err := errors.Join(adds(tx), tx.Commit()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
