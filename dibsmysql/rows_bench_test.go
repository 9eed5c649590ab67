package dibsmysql

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"
)

// BenchmarkRows: a work that changes one row, under a row lock, and beside it the same in a bare transaction.
func BenchmarkRows(b *testing.B) {
	for _, k := range kinds {
		b.Run(k.name, func(b *testing.B) {
			bed := newBed(b, k.shared(b), true)
			db := bed.pool(b, "interpolateParams=true")
			r := bed.rowsOn(b, db, nil)
			b.Run("bare", func(b *testing.B) {
				for b.Loop() {
					tx, err := db.BeginTx(b.Context(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
					if err != nil {
						b.Fatal(err)
					}
					var id int
					if err := tx.QueryRow("SELECT id FROM dibs_rows WHERE id = 1 FOR UPDATE").Scan(&id); err != nil {
						b.Fatal(err)
					}
					if err := set(1, b.N)(b.Context(), tx); err != nil {
						b.Fatal(err)
					}
					if err := tx.Commit(); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run("row", func(b *testing.B) {
				for b.Loop() {
					if err := r.Do(b.Context(), "a", set(1, b.N)); err != nil {
						b.Fatal(err)
					}
				}
			})
			for name, processes := range map[string]int{"50 workers": 1, "50 workers in 5": 5} {
				b.Run(name, func(b *testing.B) {
					all := make([]*Rows, processes)
					for i := range all {
						all[i] = bed.rows(b, "interpolateParams=true")
					}
					var wg sync.WaitGroup
					turns := make(chan struct{}, b.N)
					for range b.N {
						turns <- struct{}{}
					}
					close(turns)
					b.ResetTimer()
					began := time.Now()
					for i := range 50 {
						wg.Go(func() {
							for range turns {
								if err := all[i%processes].Do(context.Background(), "a", set(1, i)); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					wg.Wait()
					b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "works/s")
				})
			}
		})
	}
}
