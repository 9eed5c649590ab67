package dibsmysql

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/dibs-go/dibs"
)

// TestFact26_Guard: what the conformance suite requires of a guard holds whatever "affected rows" means, under an old snapshot, and on a table with triggers.
func TestFact26_Guard(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		for _, params := range []string{
			"clientFoundRows=false", "clientFoundRows=true", "interpolateParams=true", "clientFoundRows=true&interpolateParams=true", "triggers",
		} {
			b.must(t, b.admin, "DROP TABLE IF EXISTS work, log")
			b.work(t)
			if params == "triggers" { // which take the place of what LAST_INSERT_ID carries
				b.must(t, b.admin, "CREATE TABLE log (id BIGINT PRIMARY KEY AUTO_INCREMENT, n BIGINT)")
				b.must(t, b.admin, "CREATE TRIGGER log_work BEFORE UPDATE ON work FOR EACH ROW INSERT INTO log (n) VALUES (NEW.n)")
				params = ""
			}
			db := b.pool(t, params)
			g := Guard{Table: "work", Where: "id = ?", Args: []any{1}}
			for token, want := range map[int64]error{5000: nil, 4999: dibs.ErrLost} {
				for range 2 { // the second time nothing else changes
					if err := g.Update(within(t), db, 5000, "n = ?", 1); err != nil {
						t.Errorf("%s: %v", params, err)
					}
				}
				if err := g.Update(within(t), db, token, "n = ?", 1); !errors.Is(err, want) || err != nil && want == nil {
					t.Errorf("%s, token %d: %v, want %v", params, token, err, want)
				}
			}
			b.worked(t, 1)
			missing := Guard{Table: "work", Where: "id = ?", Args: []any{2}, Column: "fence"}
			if err := missing.Update(within(t), db, 5000, "n = 1"); !errors.Is(err, sql.ErrNoRows) || errors.Is(err, dibs.ErrLost) {
				t.Errorf("%s: %v", params, err)
			}
			if err := g.Update(within(t), db, 9000, "nothing = 1"); code(err) != 1054 {
				t.Error(err)
			}
			// Within a transaction with an old snapshot, and an OR in Where.
			tx := begin(t, db, sql.LevelRepeatableRead)
			var n int64
			if err := tx.QueryRow("SELECT n FROM work WHERE id = 1").Scan(&n); err != nil {
				t.Fatal(err)
			}
			if err := g.Update(within(t), db, 7000, "n = 3"); err != nil {
				t.Error(err)
			}
			either := Guard{Table: "work", Where: "id = 1 OR id = 3"}
			if err := either.Update(within(t), tx, 6999, "n = 9"); !errors.Is(err, dibs.ErrLost) {
				t.Error(err)
			}
			_ = tx.Rollback()
			if err := g.Update(within(t), tx, 9000, "n = 9"); !errors.Is(err, sql.ErrTxDone) || errors.Is(err, dibs.ErrOutcomeUnknown) {
				t.Error(err)
			}
		}
	})
}

// TestFact31_GuardReplyLost: an update whose answer was lost is unknown, not refused.
func TestFact31_GuardReplyLost(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		b.work(t)
		w := newWire(t, b.Addr)
		db := b.behind(t, w)
		if err := db.Ping(); err != nil {
			t.Fatal(err)
		}
		w.set(func(w *wire) { w.deafAt = "UPDATE work" })
		g := Guard{Table: "work", Where: "id = 1"}
		done := make(chan error, 1)
		go func() { done <- g.Update(within(t), db, 5000, "n = 5") }()
		eventually(t, "it waits for an answer", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.deaf
		})
		w.cutAll()
		is(t, "the answer was lost", <-done, dibs.ErrOutcomeUnknown)
	})
}
