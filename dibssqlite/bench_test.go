package dibssqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

func benchDriver(b *testing.B) *Driver {
	d, err := Open(filepath.Join(b.TempDir(), "locks.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Close() })
	return d
}

func BenchmarkAcquireRelease(b *testing.B) {
	d, ctx := benchDriver(b), context.Background()
	for i := range b.N {
		owner := fmt.Sprintf("%026d", i)
		r, err := d.Acquire(ctx, dibsdriver.AcquireParams{Key: "k", Owner: owner, TTL: time.Minute})
		if err != nil || !r.Acquired {
			b.Fatal(r, err)
		}
		if err := d.Release(ctx, dibsdriver.ReleaseParams{Key: "k", Owner: owner}); err != nil {
			b.Fatal(err)
		}
	}
}

// The same two statements by hand: what SQLite and database/sql cost.
func BenchmarkBarePair(b *testing.B) {
	d, ctx := benchDriver(b), context.Background()
	if err := d.Ping(ctx); err != nil {
		b.Fatal(err)
	}
	s, err := d.take(ctx, d.writer)
	if err != nil {
		b.Fatal(err)
	}
	defer d.put(d.writer, s)
	for i := range b.N {
		owner := fmt.Sprintf("%026d", i)
		var n int64
		if err := s.row(d.q.takeFree, []byte("k"), 1024, owner, 60_000, "", "", int64(dibsdriver.MaxToken)).Scan(&n); err != nil {
			b.Fatal(err)
		}
		if err := s.row(d.q.release, []byte("k"), owner, 0).Scan(&n); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPoll(b *testing.B) {
	d, ctx := benchDriver(b), context.Background()
	p := dibsdriver.AcquireParams{Key: "k", Owner: "a", TTL: time.Hour}
	if _, err := d.Acquire(ctx, p); err != nil {
		b.Fatal(err)
	}
	p.Owner, p.Waiter = "b", "w"
	for b.Loop() {
		if r, err := d.Acquire(ctx, p); err != nil || r.Acquired {
			b.Fatal(r, err)
		}
	}
}

func BenchmarkRenew1000(b *testing.B) {
	d, ctx := benchDriver(b), context.Background()
	var leases []dibsdriver.Renewal
	for i := range 1000 {
		key, owner := fmt.Sprintf("key-%d", i), fmt.Sprintf("%026d", i)
		if _, err := d.Acquire(ctx, dibsdriver.AcquireParams{Key: key, Owner: owner, TTL: time.Hour}); err != nil {
			b.Fatal(err)
		}
		leases = append(leases, dibsdriver.Renewal{Key: key, Owner: owner, TTL: 2 * time.Hour})
	}
	for b.Loop() {
		answers, err := d.Renew(ctx, leases)
		if err != nil || answers[999] != dibsdriver.Renewed {
			b.Fatal(err)
		}
	}
}
