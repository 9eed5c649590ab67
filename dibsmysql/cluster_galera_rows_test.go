//go:build clusters

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

	"github.com/dibs-go/dibs"
)

// galeraRows: row locks are refused, unless asked for. Then works at both nodes read what both write, and each writes a row of its own, which no conflict of theirs
// would tell: all that are said to be committed came one after another.
func galeraRows(t *testing.T, nodes []*bed) {
	const works = 300
	for i, b := range nodes {
		_, err := NewRows(within(t), b.pool(t, ""), nil)
		if !errors.Is(err, dibs.ErrUnsupported) || !strings.Contains(err.Error(), "Galera") || !strings.Contains(err.Error(), "MultiPrimary") {
			t.Errorf("node %d: %v", i+1, err)
		}
	}
	multi := &RowsConfig{MultiPrimary: true}
	nodes[0].rowsOn(t, nodes[0].pool(t, ""), multi) // makes the tables
	start := nodes[0].number(t, "SELECT MAX(n) FROM stock")
	turns := nodes[0].number(t, "SELECT turns FROM dibs_rows WHERE name = 'a'")
	before := conflicts(t, nodes)
	var left, committed, failed atomic.Int64
	left.Store(works)
	var all sync.WaitGroup
	for i, b := range nodes {
		r, err := NewRows(within(t), b.pool(t, ""), multi)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			all.Go(func() {
				for left.Add(-1) >= 0 {
					err := r.Do(within(t), "a", func(ctx context.Context, tx *sql.Tx) error {
						var n int
						if err := tx.QueryRowContext(ctx, "SELECT MAX(n) FROM stock").Scan(&n); err != nil {
							return err
						}
						return set(i+1, n+1)(ctx, tx)
					})
					switch {
					case err == nil:
						committed.Add(1)
					case errors.Is(err, dibs.ErrOutcomeUnknown):
						t.Errorf("node %d: %v", i+1, err)
					case code(err) == 1213: // the work's own statement, or the commit
						failed.Add(1)
					default:
						t.Errorf("node %d: %v", i+1, err)
					}
				}
			})
		}
	}
	all.Wait()
	for i, b := range nodes {
		if n := b.number(t, "SELECT MAX(n) FROM stock") - start; n != committed.Load() {
			t.Errorf("node %d: %d are said to be committed, and the number rose by %d: some did not see each other", i+1, committed.Load(), n)
		}
		if n := b.number(t, "SELECT turns FROM dibs_rows WHERE name = 'a'") - turns; n != committed.Load() {
			t.Errorf("node %d: %d turns of %d", i+1, n, committed.Load())
		}
	}
	n := conflicts(t, nodes) - before
	if n == 0 || failed.Load() == 0 {
		t.Errorf("%d conflicts between the nodes, %d works failed: this shows nothing", n, failed.Load())
	}
	t.Logf("%d committed, %d not, %d conflicts", committed.Load(), failed.Load(), n)
}

// galeraRowsCommit: another node is quicker while a COMMIT is on its way. The answer says that it did not take place.
func galeraRowsCommit(t *testing.T, nodes []*bed) {
	w := newWire(t, nodes[0].Addr)
	db := nodes[0].behind(t, w)
	r := nodes[0].rowsOn(t, db, &RowsConfig{MultiPrimary: true})
	other, err := NewRows(within(t), nodes[1].pool(t, ""), &RowsConfig{MultiPrimary: true})
	if err != nil {
		t.Fatal(err)
	}
	nodes[0].must(t, nodes[0].admin, "UPDATE stock SET n = 100")
	w.set(func(w *wire) { w.holdAt = commitPacket })
	done := make(chan error, 1)
	go func() { done <- r.Do(within(t), "a", set(1, 1)) }()
	<-w.held
	if err := other.Do(within(t), "a", set(2, 2)); err != nil {
		t.Fatalf("the quicker one: %v", err)
	}
	close(w.resume)
	err = <-done
	if !errors.Is(err, dibs.ErrUnavailable) || errors.Is(err, dibs.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "not committed") || code(err) != 1213 {
		t.Errorf("the slower one: %v", err)
	}
	for i, b := range nodes {
		if one, two := b.stock(t, 1), b.stock(t, 2); one != 100 || two != 2 {
			t.Errorf("node %d: %d and %d", i+1, one, two)
		}
	}
	if err := r.Do(within(t), "a", set(1, 1)); err != nil {
		t.Errorf("once more: %v", err)
	}
}

// galeraTransactions: a fenced transaction belongs on the lock's own node, and is refused on another. One that loses its data to another node is told as not committed.
func galeraTransactions(t *testing.T, nodes []*bed) {
	here, there := nodes[0].pool(t, ""), nodes[1].pool(t, "")
	lock, work := hold(t, nodes[0].locker(t, "", nil), "k")
	start := nodes[0].number(t, "SELECT n FROM work")
	if err := InTx(work, here, lock, nodes[0].adds(t)); err != nil {
		t.Fatal(err)
	}
	if err := InTx(work, there, lock, nodes[1].adds(t)); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("on the other node: %v", err)
	}
	want := start + 1
	for what, in := range map[string]inTxFunc{"InTx": InTx, "InTxAndRelease": InTxAndRelease} {
		want += 10
		w := newWire(t, nodes[0].Addr)
		db := nodes[0].behind(t, w)
		w.set(func(w *wire) { w.holdAt = commitPacket })
		done := make(chan error, 1)
		go func() { done <- in(work, db, lock, nodes[0].adds(t)) }()
		<-w.held
		nodes[1].must(t, nodes[1].admin, fmt.Sprint("UPDATE work SET n = ", want))
		close(w.resume)
		err := <-done
		if !errors.Is(err, dibs.ErrUnavailable) || errors.Is(err, dibs.ErrOutcomeUnknown) || errors.Is(err, dibs.ErrLost) || !strings.Contains(err.Error(), "not committed") {
			t.Errorf("%s: %v", what, err)
		}
		for i, b := range nodes {
			if n := b.number(t, "SELECT n FROM work"); n != want {
				t.Errorf("%s, node %d: n is %d, want %d", what, i+1, n, want)
			}
		}
		if err := lock.Verify(within(t)); err != nil {
			t.Errorf("%s: the lock: %v", what, err)
		}
	}
}
