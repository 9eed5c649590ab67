//go:build clusters

package dibsmysql

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// galeraFence: the key has passed to a process at another node, of which the holder's node has not heard yet. A fenced transaction of the old holder does not commit there.
func galeraFence(t *testing.T, nodes []*bed) {
	here, there := nodes[0], nodes[1]
	here.must(t, here.admin, "CREATE TABLE aside (id INT PRIMARY KEY)")
	l, db, d := here.locker(t, "", nil), here.pool(t, ""), there.driver(t, "")
	for what, in := range map[string]inTxFunc{"InTx": InTx, "InTxAndRelease": InTxAndRelease} {
		lock, work := hold(t, l, what)
		if err := InTx(work, db, lock, here.adds(t)); err != nil { // what is asked once is asked before the node hears nothing
			t.Fatal(err)
		}
		start := here.number(t, "SELECT n FROM work")
		resume := here.pause(t)
		if _, err := d.Break(within(t), dibsdriver.BreakParams{Key: what, Token: lock.Token(), Now: true}); err != nil {
			t.Fatal(err)
		}
		owner, _ := take(t, d, what, dibsTTL)
		if _, has, _ := here.peek(t, what); has == owner {
			t.Fatal("the holder's node has heard of the next owner, and this shows nothing")
		}
		done := make(chan error, 1)
		go func() { done <- in(context.Background(), db, lock, here.adds(t)) }()
		eventually(t, "the commit is on its way", func() bool {
			select {
			case err := <-done:
				t.Fatalf("%s: %v", what, err)
			default:
			}
			return here.number(t, "SELECT COUNT(*) FROM information_schema.processlist WHERE info = 'COMMIT'") == 1
		})
		resume()
		if err := <-done; !errors.Is(err, dibs.ErrUnavailable) || errors.Is(err, dibs.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "not committed") {
			t.Errorf("%s: %v", what, err)
		}
		is(t, what+" once more", in(context.Background(), db, lock, here.adds(t)), dibs.ErrLost)
		for i, b := range nodes {
			if n := b.number(t, "SELECT n FROM work"); n != start {
				t.Errorf("%s: it is committed at node %d: n is %d, want %d", what, i+1, n, start)
			}
		}
		release(t, d, what, owner)
	}
}

// pause keeps a node from hearing of the others' writes, by a change of a table that is made on this node alone, and has to wait for a reader.
func (b *bed) pause(t *testing.T) (resume func()) {
	t.Helper()
	reader, err := b.admin.Begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Rollback() })
	if _, err := reader.Exec("SELECT * FROM aside"); err != nil {
		t.Fatal(err)
	}
	conn, err := b.open(t, b.Admin, b.database, "wsrep_OSU_method=RSU").Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	changed := make(chan error, 1)
	go func() {
		_, err := conn.ExecContext(context.Background(), "ALTER TABLE aside COMMENT = 'changed', ALGORITHM = COPY")
		changed <- errors.Join(err, conn.Close())
	}()
	eventually(t, "the change waits", func() bool {
		return b.number(t, "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata lock%'") == 1
	})
	return func() {
		t.Helper()
		if err := errors.Join(reader.Rollback(), <-changed); err != nil {
			t.Fatal(err)
		}
	}
}
