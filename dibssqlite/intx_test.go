package dibssqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
)

// TestS7_InTx: the write lock is there from the start, and waited for as long as the context says.
func TestS7_InTx(t *testing.T) {
	t.Parallel()
	fencedWays(t, nil, func(t *testing.T, b *bench) {
		lock, ctx := hold(t, b.locker, "k")
		err := InTx(ctx, b.db, lock, func(tx *sql.Tx) error {
			look := raw(t, b.path+"?_busy_timeout=0")
			if _, err := look.Exec("BEGIN IMMEDIATE"); !busy(err) {
				t.Errorf("somebody else has the write lock: %v", err)
			}
			return adds(tx)
		})
		if err != nil {
			t.Fatal(err)
		}
		b.worked(t, 1)
		writer := begin(t, b.look, add)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		is(t, "locked", InTx(ctx, b.db, lock, adds), context.DeadlineExceeded, dibs.ErrUnavailable)
		if err := writer.Rollback(); err != nil {
			t.Error(err)
		}
		b.worked(t, 1)
		if err := lock.Err(); err != nil {
			t.Error(err)
		}
	})
}

// TestInTxSectionOver: a section that ends while fn runs ends its transaction.
func TestInTxSectionOver(t *testing.T) {
	t.Parallel()
	b := newBench(t, "New")
	l := locker(t, b.driver, &dibs.Config{RequestTimeout: 2 * time.Second, TTL: 10 * time.Second})
	lock, _ := hold(t, l, "k")
	err := InTx(within(t), b.db, lock, func(tx *sql.Tx) error {
		// The file is ours, so that the release cannot be confirmed.
		is(t, "release", lock.Release(), dibs.ErrUnavailable)
		return adds(tx)
	})
	is(t, "released under fn", err, dibs.ErrReleased)
	b.worked(t, 0)
	lock, _ = hold(t, l, "k") // it was released in the background
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

// TestGuard: a row of another file refuses those whose lock has passed on.
func TestGuard(t *testing.T) {
	t.Parallel()
	b := newBench(t, "Open")
	defer b.driver.Close()
	g := Guard{Table: "work", Where: "id = ?", Args: []any{1}}
	ctx := t.Context()
	for i, c := range []struct {
		token int64
		set   string
		args  []any
		want  error
		n     int64
	}{
		{5000, "n = ?", []any{1}, nil, 1},
		{5000, "n = ?", []any{1}, nil, 1}, // the same values
		{5000, "", nil, nil, 1},
		{4999, "n = ?", []any{2}, dibs.ErrLost, 1},
		{6000, "", nil, nil, 1}, // claimed
		{5000, "n = n + 1", nil, dibs.ErrLost, 1},
		{6000, "n = n + ?, token = ?", []any{1, 7}, nil, 2},
		{0, "n = 3", nil, dibs.ErrUnavailable, 2},
		{1 << 53, "n = 3", nil, dibs.ErrUnavailable, 2},
	} {
		err := g.Update(ctx, b.db, c.token, c.set, c.args...)
		if !errors.Is(err, c.want) || err != nil && c.want == nil {
			t.Errorf("%d: %v, want %v", i, err, c.want)
		}
		b.worked(t, c.n)
	}
	missing := Guard{Table: "work", Where: "id = ?", Args: []any{2}, Column: "fence"}
	if err := missing.Update(ctx, b.db, 9000, "n = 1"); !errors.Is(err, sql.ErrNoRows) || errors.Is(err, dibs.ErrLost) {
		t.Error(err)
	}
	if err := g.Update(ctx, b.db, 9000, "nothing = 1"); err == nil || errors.Is(err, dibs.ErrLost) || !strings.Contains(err.Error(), "nothing was changed") {
		t.Error(err)
	}
	// Within a transaction, and an OR in Where.
	tx := begin(t, b.db)
	either := Guard{Table: "work", Where: "id = 1 OR id = 3"}
	if err := either.Update(ctx, tx, 5999, "n = 9"); !errors.Is(err, dibs.ErrLost) {
		t.Error(err)
	}
	_ = tx.Rollback()
	// Of all who race, the highest token stays.
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if err := g.Update(ctx, b.db, int64(10_000+i), "n = ?", i); err != nil && !errors.Is(err, dibs.ErrLost) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	b.worked(t, 19)
	if f := number(t, b.look, "SELECT fence FROM work WHERE id = 1"); f != 10_019 {
		t.Error(fmt.Sprint("fence ", f))
	}
}

// TestS7_EndedInside: a transaction that the work ended, or had ended, is not taken for one that is fenced, and the lock is not released with it.
func TestS7_EndedInside(t *testing.T) {
	for name, statements := range map[string][]string{
		"on conflict rollback": {"INSERT INTO seen VALUES (1)", "INSERT INTO work VALUES (7, 1)"},
		"commit":               {"COMMIT", "INSERT INTO work VALUES (7, 1)"},
		"rollback":             {"ROLLBACK"},
		"another":              {"COMMIT", "BEGIN"},
	} {
		fencedWays(t, nil, func(t *testing.T, b *bench) {
			for _, s := range []string{"CREATE TABLE seen (id INTEGER PRIMARY KEY ON CONFLICT ROLLBACK)", "INSERT INTO seen VALUES (1)"} {
				mustExec(t, b.db, s)
			}
			lock, ctx := hold(t, b.locker, "k")
			err := InTxAndRelease(ctx, b.db, lock, func(tx *sql.Tx) error {
				for _, s := range statements {
					_, _ = tx.Exec(s)
				}
				return nil
			})
			if !errors.Is(err, dibs.ErrOutcomeUnknown) {
				t.Errorf("%s: want ErrOutcomeUnknown, got %v", name, err)
			}
			if err := lock.Verify(within(t)); err != nil {
				t.Errorf("%s: the lock: %v", name, err)
			}
			if err := lock.Release(); err != nil {
				t.Errorf("%s: release: %v", name, err)
			}
		})
	}
}
