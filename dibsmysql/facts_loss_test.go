package dibsmysql

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// TestFact30_NoGhost: who stops waiting for a row leaves no statement in the server, and no lease.
func TestFact30_NoGhost(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		owner, _ := take(t, d, "k", time.Minute)
		release(t, d, "k", owner)
		unlock := b.lockRow(t, "k")
		for i := range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			began := time.Now()
			r, err := d.Acquire(ctx, params("k", time.Hour))
			cancel()
			if took := time.Since(began); err == nil || r.Acquired || took > 100*time.Millisecond+dibsdriver.Grace {
				t.Fatalf("round %d: %+v, %v, after %s", i, r, err, took)
			}
			if !errors.Is(err, dibsdriver.ErrUnavailable) {
				t.Error(err)
			}
		}
		stopped := time.Now()
		eventually(t, "nothing of it is left in the server", func() bool { return b.threads(t) == 0 })
		if took := time.Since(stopped); took > time.Second {
			t.Errorf("a statement stayed for %s", took)
		}
		unlock()
		time.Sleep(50 * time.Millisecond)
		if _, owner, _ := b.peek(t, "k"); owner != "" {
			t.Errorf("a ghost: %s", owner)
		}
	})
}

// TestFact31_B11_ReplyLost: an acquire whose answer was lost is unknown, never busy and never repeated; a release by its owner undoes it.
func TestFact31_B11_ReplyLost(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		w := newWire(t, b.Addr)
		d := b.through(t, w, "")
		take(t, d, "warm", time.Minute)
		w.set(func(w *wire) { w.deaf = true })
		p := params("k", time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		r, err := d.Acquire(ctx, p)
		cancel()
		if err == nil || r.Acquired || dibsdriver.FateOf(err) != dibsdriver.FateUnknown || !errors.Is(err, dibsdriver.ErrUnavailable) {
			t.Fatalf("%+v, %v, fate %v", r, err, dibsdriver.FateOf(err))
		}
		if _, owner, _ := b.peek(t, "k"); owner != p.Owner {
			t.Fatalf("it was to be applied, and the owner is %q", owner)
		}
		w.set(func(w *wire) { w.deaf = false })
		w.cutAll()
		release(t, d, "k", p.Owner)
		take(t, b.driver(t, ""), "k", time.Minute)
	})
}

// TestFact32_CutAtEachByte: wherever the request is cut off, it is applied once or not at all, and what is said of it is true.
func TestFact32_CutAtEachByte(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		b.must(t, b.admin, "CREATE TABLE executed (lock_key VARBINARY(255))")
		b.must(t, b.admin, "CREATE TRIGGER executed AFTER INSERT ON dibs_leases FOR EACH ROW INSERT INTO executed VALUES (NEW.lock_key)")
		length := len(New(b.admin, nil).q.acquire.with(literal("k000"), literal(newOwner()), "60000000", "1024", text("a holder 🔒"), text("a note")))
		step := max(1, length/40)
		fates := make(map[dibsdriver.Fate]int)
		for n := 0; n < length+60; n += step {
			w := newWire(t, b.Addr)
			d := b.through(t, w, "")
			take(t, d, fmt.Sprint("warm", n), time.Minute)
			w.set(func(w *wire) { w.cutAfter = n })
			key := fmt.Sprintf("k%03d", n)
			p := params(key, time.Minute)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			r, err := d.Acquire(ctx, p)
			cancel()
			_, owner, _ := b.peek(t, key)
			times := b.number(t, "SELECT COUNT(*) FROM executed WHERE lock_key = ?", []byte(key))
			fate := dibsdriver.FateOf(err)
			switch {
			case times > 1:
				t.Errorf("cut after %d bytes: executed %d times", n, times)
			case err == nil && (!r.Acquired || owner != p.Owner):
				t.Errorf("cut after %d bytes: %+v, and the row has %q", n, r, owner)
			case err != nil && fate == dibsdriver.FateNotApplied && owner != "":
				t.Errorf("cut after %d bytes: not applied, and the row has %q: %v", n, owner, err)
			}
			if err != nil {
				fates[fate]++
			}
			_ = d.Close()
		}
		t.Logf("fates: %v", fates)
	})
}

// TestFact33_B47_ReadOnly: a server that takes no writes says so, and when it does again, work goes on, by the same pool.
func TestFact33_B47_ReadOnly(t *testing.T) {
	t.Parallel()
	onBothAlone(t, nil, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		owner, _ := take(t, d, "k", time.Minute)
		b.must(t, b.admin, "SET GLOBAL read_only = ON")
		for what, f := range map[string]func() error{
			"acquire": func() error { _, err := d.Acquire(within(t), params("other", time.Minute)); return err },
			"release": func() error {
				return d.Release(within(t), dibsdriver.ReleaseParams{Key: "k", Owner: owner})
			},
			"renew": func() error {
				_, err := d.Renew(within(t), []dibsdriver.Renewal{{Key: "k", Owner: owner, TTL: time.Minute}})
				return err
			},
			"ping":        func() error { return d.Ping(within(t)) },
			"first use":   func() error { _, err := b.driver(t, "").Acquire(within(t), params("k", time.Minute)); return err },
			"super's use": func() error { _, err := drive(t, b.admin).Acquire(within(t), params("k", time.Minute)); return err },
		} {
			err := f()
			if !errors.Is(err, dibsdriver.ErrReadOnly) || !errors.Is(err, dibsdriver.ErrUnavailable) || dibsdriver.FateOf(err) != dibsdriver.FateNotApplied {
				t.Errorf("%s: %v, fate %v", what, err, dibsdriver.FateOf(err))
			}
		}
		b.must(t, b.admin, "SET GLOBAL read_only = OFF")
		renewed(t, d, dibsdriver.Renewed, "k", owner, time.Minute)
		release(t, d, "k", owner)
	})
}

// TestFact47_AutocommitOff is refused: nobody else would see the lease.
func TestFact47_AutocommitOff(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		d := b.driver(t, "autocommit=0")
		for what, f := range map[string]func() error{
			"ping":    func() error { return d.Ping(within(t)) },
			"acquire": func() error { _, err := d.Acquire(within(t), params("k", time.Minute)); return err },
		} {
			if err := f(); !errors.Is(err, dibsdriver.ErrRefused) || dibsdriver.FateOf(err) != dibsdriver.FateNotApplied {
				t.Errorf("%s: %v", what, err)
			}
		}
		// A single connection that somebody has changed.
		db := b.pool(t, "")
		db.SetMaxOpenConns(2)
		d = drive(t, db)
		owner, _ := take(t, d, "k", time.Minute)
		release(t, d, "k", owner)
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b.must(t, conn, "SET autocommit = 0")
		conn.Close()
		_, err = d.Acquire(within(t), params("k", time.Minute))
		if !errors.Is(err, dibsdriver.ErrRefused) {
			t.Error(err)
		}
		if _, owner, _ := b.peek(t, "k"); owner != "" {
			t.Errorf("owned by %s", owner)
		}
	})
}

// TestFact52_FrozenTransaction: the server ends a transaction whose client is silent, and the row that it had locked is free.
func TestFact52_FrozenTransaction(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		owner, _ := take(t, d, "k", time.Minute)
		release(t, d, "k", owner)
		frozen := b.open(t, b.Admin, b.database, "wait_timeout=2")
		tx, err := frozen.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		b.must(t, tx, "UPDATE dibs_leases SET note = 'frozen' WHERE lock_key = 'k'")
		began := time.Now()
		take(t, d, "k", time.Minute)
		if took := time.Since(began); took < time.Second || took > 5*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}
