//go:build clusters

package dibsmysql

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// TestGalera: what holds, and what is refused, where two nodes take writes. The cases share a cluster, and the last ends it.
func TestGalera(t *testing.T) {
	nodes := galera(t)
	for _, c := range []struct {
		name string
		run  func(*testing.T, []*bed)
	}{
		{"Fact37_S1_S4_exclusion", galeraExclusion},
		{"Fact37_39_race", galeraRace},
		{"Fact35_batons", galeraBatons},
		{"Fact36_rows", galeraRows},
		{"Fact36_rows_commit", galeraRowsCommit},
		{"Fact36_S7_transactions", galeraTransactions},
		{"Fact36_S7_fence", galeraFence},
		{"doctor", galeraDoctor},
		{"moving on", galeraMovingOn},
		{"node lost", galeraNodeLost},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, nodes) })
	}
}

// conflicts counts the writes that lost against another node's.
func conflicts(t testing.TB, nodes []*bed) (n int) {
	t.Helper()
	for _, b := range nodes {
		for _, name := range []string{"wsrep_local_cert_failures", "wsrep_local_bf_aborts"} {
			i, err := strconv.Atoi(b.status(t, name))
			if err != nil {
				t.Fatal(err)
			}
			n += i
		}
	}
	return n
}

// section is what a lock keeps apart: it is worked on as if nobody else did.
type section struct {
	inside, node atomic.Int32
	n, token     atomic.Int64
}

// galeraExclusion: processes on both nodes take a few keys in turns, 1,000 times in all. No two are inside at once, no update is lost, and tokens rise.
func galeraExclusion(t *testing.T, nodes []*bed) {
	const rounds, keys, processes = 1000, 3, 2
	var sections [keys]section
	var left, changes atomic.Int64
	left.Store(rounds)
	before := conflicts(t, nodes)
	var all sync.WaitGroup
	for i, b := range nodes {
		for range processes {
			l := b.client(t, b.pool(t, ""), dibsTTL)
			for k := range sections {
				s, key := &sections[k], fmt.Sprint("key ", k)
				work := func(ctx context.Context) error {
					if s.inside.Add(1) != 1 {
						t.Errorf("%s: two are inside", key)
					}
					n := s.n.Load()
					lock, _ := dibs.FromContext(ctx, key)
					if last := s.token.Swap(lock.Token()); lock.Token() <= last {
						t.Errorf("%s: token %d after %d", key, lock.Token(), last)
					}
					if token, _, _ := b.peek(t, key); token != lock.Token() {
						t.Errorf("%s: token %d, and %d is in the row", key, lock.Token(), token)
					}
					if s.node.Swap(int32(i+1)) != int32(i+1) {
						changes.Add(1)
					}
					time.Sleep(rand.N(2 * time.Millisecond))
					s.n.Store(n + 1)
					s.inside.Add(-1)
					return nil
				}
				all.Go(func() {
					for left.Add(-1) >= 0 && !t.Failed() {
						time.Sleep(rand.N(10 * time.Millisecond)) // else who has a key is mostly the first to have it again
						if err := l.Do(t.Context(), key, work); err != nil {
							t.Errorf("%s at node %d: %v", key, i+1, err)
						}
					}
				})
			}
		}
	}
	all.Wait()
	total := int64(0)
	for i := range sections {
		total += sections[i].n.Load()
	}
	if total != rounds && !t.Failed() {
		t.Errorf("%d updates of %d", total, rounds)
	}
	if changes.Load() < rounds/25 {
		t.Errorf("the keys went from node to node %d times, which shows little", changes.Load())
	}
	t.Logf("%d rounds, %d times to the other node, %d conflicts between the nodes", total, changes.Load(), conflicts(t, nodes)-before)
}

// galeraRace: of all who ask at once, at both nodes, one gets the key, whether its row was there or not. What the others' statements met in the cluster is no error of theirs.
func galeraRace(t *testing.T, nodes []*bed) {
	const rounds = 100
	before := conflicts(t, nodes)
	var drivers []*Driver
	for range 2 {
		for _, b := range nodes {
			drivers = append(drivers, b.driver(t, ""))
		}
	}
	for round := range rounds {
		key := fmt.Sprint("race ", round/2)
		type won struct {
			driver int
			owner  string
			token  int64
		}
		winners := make(chan won, 16)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				p := params(key, time.Minute)
				r, err := drivers[i%len(drivers)].Acquire(within(t), p)
				if err != nil {
					t.Errorf("round %d: %v", round, err)
				}
				if r.Acquired {
					winners <- won{i % len(drivers), p.Owner, r.Token}
				}
			})
		}
		wg.Wait()
		if len(winners) != 1 {
			t.Fatalf("round %d: %d owners", round, len(winners))
		}
		w := <-winners
		for i, b := range nodes {
			if token, owner, _ := b.peek(t, key); token != w.token || owner != w.owner {
				t.Fatalf("round %d, node %d: %s has token %d, not %s token %d", round, i+1, owner, token, w.owner, w.token)
			}
		}
		renewed(t, drivers[w.driver], dibsdriver.Renewed, key, w.owner, time.Minute)
		release(t, drivers[w.driver], key, w.owner)
	}
	n := conflicts(t, nodes) - before
	if n == 0 {
		t.Error("there was no conflict between the nodes, which shows nothing")
	}
	t.Logf("%d conflicts between the nodes in %d rounds", n, rounds)
}

// galeraBatons: named locks are each node's own. Nothing rests on them: who waits at the other node looks at the row.
func galeraBatons(t *testing.T, nodes []*bed) {
	d := nodes[0].driver(t, "")
	lock, _ := hold(t, locker(t, d, nil), "k")
	eventually(t, "the holder has the baton at its node", func() bool { return !nodes[0].batonFree(t, d, "k") })
	if name := "SELECT IS_FREE_LOCK(" + d.batonName(d.server.Load(), "k") + ")"; nodes[1].number(t, name) != 1 {
		t.Error("the other node knows of it")
	}
	other := nodes[1].driver(t, "")
	got := make(chan error, 1)
	asked := other.looks.Load()
	waiter := locker(t, other, nil)
	go func() {
		l, _, err := waiter.Acquire(within(t), "k")
		got <- errors.Join(err, l.Release())
	}()
	eventually(t, "the waiter looks at the row again and again", func() bool { return other.looks.Load() > asked+10 })
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
	released := time.Now()
	if err := <-got; err != nil {
		t.Error(err)
	}
	took := time.Since(released)
	if took > 2*time.Second {
		t.Errorf("the waiter had the key %s after its release", took)
	}
	t.Logf("released at one node, had at the other after %s", took.Round(time.Millisecond))
}

// galeraDoctor: a node is known as one.
func galeraDoctor(t *testing.T, nodes []*bed) {
	for _, b := range nodes {
		found := examined(t, b.driver(t, ""))
		onlyFaults(t, found)
		wantFinding(t, found, checkCluster, isWarning, "a node of a Galera cluster", "connect all processes to one node")
	}
}

// galeraMovingOn: the address leads to the other node from now on. Leases go on there; a node that takes no statements any more is left even by connections that
// would last.
func galeraMovingOn(t *testing.T, nodes []*bed) {
	for _, how := range []string{"cut", "refused"} {
		w := newWire(t, nodes[0].Addr)
		db := nodes[0].behind(t, w)
		l := nodes[0].client(t, db, dibsTTL)
		lock, work := hold(t, l, how)
		before := nodes[0].number(t, "SELECT n FROM work")
		if err := InTx(work, db, lock, nodes[0].adds(t)); err != nil {
			t.Fatal(err)
		}
		w.set(func(w *wire) { w.target = nodes[1].Addr })
		if how == "cut" {
			w.cutAll()
		} else {
			nodes[0].must(t, nodes[0].admin, "SET GLOBAL wsrep_reject_queries = ALL")
			t.Cleanup(func() { nodes[0].must(t, nodes[0].admin, "SET GLOBAL wsrep_reject_queries = NONE") })
		}
		eventually(t, "the lease is confirmed: "+how, func() bool { return lock.Verify(within(t)) == nil })
		var err error
		for range 2 + attempts { // each connection that leads to the old node answers once
			if err = InTx(work, db, lock, nodes[1].adds(t)); err == nil {
				break
			}
			if !errors.Is(err, dibs.ErrUnavailable) || errors.Is(err, dibs.ErrOutcomeUnknown) {
				t.Errorf("%s: %v", how, err)
			}
		}
		if n := nodes[1].number(t, "SELECT n FROM work"); err != nil || n != before+2 {
			t.Errorf("%s: %v, n is %d, want %d", how, err, n, before+2)
		}
		if err := lock.Release(); err != nil {
			t.Errorf("%s: %v", how, err)
		}
	}
}

// galeraNodeLost: one of two nodes is killed, and the other, which has no majority, takes no statements. Who holds is told when the time is over; who asks is told that nobody
// knows, never "busy" or "lost".
func galeraNodeLost(t *testing.T, nodes []*bed) {
	b := nodes[0]
	l := b.client(t, b.pool(t, ""), 5*time.Second)
	lock, work, err := l.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	long, longWork, err := l.Acquire(t.Context(), "long", dibs.TTL(5*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	d := b.driver(t, "")
	if err := d.Ping(within(t)); err != nil {
		t.Fatal(err)
	}
	nodes[1].Kill()
	killed := time.Now()
	select {
	case <-work.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the holder is not told that its time is over")
	}
	is(t, "a lease that could not be renewed", lock.Err(), dibs.ErrLost)
	for b.status(t, "wsrep_cluster_status") == "Primary" {
		if time.Since(killed) > time.Minute {
			t.Fatal("the node that is left goes on by itself")
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Logf("the node that is left took no statements from %s after the other's death on", time.Since(killed).Round(time.Millisecond))
	for _, key := range []string{"k", "new", "long"} {
		_, err := d.Acquire(within(t), params(key, time.Minute))
		if !errors.Is(err, dibs.ErrUnavailable) || dibsdriver.FateOf(err) == dibsdriver.FateUnknown {
			t.Errorf("acquiring %q: %v, fate %v", key, err, dibsdriver.FateOf(err))
		}
		is(t, "acquiring", err, dibs.ErrUnavailable)
	}
	if err := long.Verify(within(t)); !errors.Is(err, dibs.ErrUnavailable) || errors.Is(err, dibs.ErrLost) || longWork.Err() != nil {
		t.Errorf("a lease that has time left: %v, %v", err, longWork.Err())
	}
	found := examined(t, b.driver(t, ""))
	wantFinding(t, found, checkCluster, isFault, "not part of its majority")
}
