package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
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

// TestFact32_CutAtEachByte: wherever a connection is cut, in the request or in its answer, and though the server can be reached again at once, the request is sent
// once and executed once at most, and what is said of it is true.
func TestFact32_CutAtEachByte(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		// This trigger tells of each execution, also of one that finds the row there.
		b.must(t, b.admin, "CREATE TABLE executed (lock_key VARBINARY(255))")
		b.must(t, b.admin, "CREATE TRIGGER executed BEFORE INSERT ON dibs_leases FOR EACH ROW INSERT INTO executed VALUES (NEW.lock_key)")
		w := newWire(t, b.Addr)
		d := b.through(t, w, "")
		take(t, d, "warm", time.Minute)
		statement := d.q.acquire.with(literal("k0000"), literal(newOwner()), "60000000", "1024", text("a holder 🔒"), text("a note"))
		request := 4 + 1 + len(statement) // the packet's head, the command
		fates := make(map[dibsdriver.Fate]int)
		for n := 0; ; n++ {
			if !long && n > 5 && n < request-2 && n%61 != 0 {
				continue
			}
			key := fmt.Sprintf("k%04d", n)
			p := params(key, time.Minute)
			w.set(func(w *wire) { w.breakAt, w.breakIn, w.watch, w.seen = literal(p.Owner), n, literal(p.Owner), 0 })
			r, err := d.Acquire(within(t), p)
			_, owner, _ := b.peek(t, key)
			times := b.number(t, "SELECT COUNT(*) FROM executed WHERE lock_key = ?", []byte(key))
			sent, want := 0, int64(0)
			w.set(func(w *wire) { sent = w.seen })
			if n >= request { // the cut is in the answer, which there is because the request was executed
				want = 1
			}
			if sent != 1 || times != want {
				t.Errorf("cut after %d of %d bytes: sent %d times, executed %d times", n, request, sent, times)
			}
			if err == nil {
				if !r.Acquired || owner != p.Owner || n < request {
					t.Errorf("cut after %d of %d bytes: %+v, and the row has %q", n, request, r, owner)
				}
				if n >= request { // the whole answer has passed
					break
				}
				continue
			}
			fate := dibsdriver.FateOf(err)
			fates[fate]++
			if r.Acquired || !errors.Is(err, dibsdriver.ErrUnavailable) || fate == dibsdriver.FateNotApplied && times > 0 {
				t.Errorf("cut after %d of %d bytes: %+v, %v, fate %v, and the row has %q", n, request, r, err, fate, owner)
			}
			if n > request+100 {
				t.Fatal("no answer is that long")
			}
		}
		if n := fates[dibsdriver.FateUnknown]; n < 15 {
			t.Errorf("fates: %v", fates)
		}
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

// TestFact33_ReadOnlySessions: the same of sessions whose transactions are READ ONLY, of which @@read_only tells nothing.
func TestFact33_ReadOnlySessions(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		setting := "transaction_read_only=1"
		if !b.mysql {
			setting = "tx_read_only=1"
		}
		owner, _ := take(t, b.driver(t, ""), "k", time.Minute)
		d := b.driver(t, setting)
		for what, f := range map[string]func() error{
			"acquire":              func() error { _, err := d.Acquire(within(t), params("other", time.Minute)); return err },
			"acquire what is held": func() error { _, err := d.Acquire(within(t), params("k", time.Minute)); return err },
			"release":              func() error { return d.Release(within(t), dibsdriver.ReleaseParams{Key: "k", Owner: owner}) },
			"renew": func() error {
				_, err := d.Renew(within(t), []dibsdriver.Renewal{{Key: "k", Owner: owner, TTL: time.Minute}})
				return err
			},
			"a Locker": func() error { _, _, err := b.locker(t, setting, nil).TryAcquire(within(t), "other"); return err },
		} {
			err := f()
			if !errors.Is(err, dibsdriver.ErrReadOnly) || !errors.Is(err, dibsdriver.ErrUnavailable) || dibsdriver.FateOf(err) != dibsdriver.FateNotApplied || code(err) != 1792 {
				t.Errorf("%s: %v, fate %v", what, err, dibsdriver.FateOf(err))
			}
		}
		if _, is, _ := b.peek(t, "k"); is != owner {
			t.Errorf("the owner is %q", is)
		}
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

// TestFact52_FrozenTransaction: the server ends a transaction whose client is silent, by wait_timeout, or by MariaDB's idle_transaction_timeout; until then its fence
// keeps the key, though the lease has expired, and after that it cannot commit.
func TestFact52_FrozenTransaction(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		settings := []string{"wait_timeout=2"}
		if !b.mysql {
			settings = append(settings, "idle_transaction_timeout=2")
		}
		for _, setting := range settings {
			b.must(t, b.admin, "DROP TABLE IF EXISTS work")
			b.work(t)
			l, other := b.locker(t, "", nil), b.locker(t, "", nil)
			lock, _ := hold(t, l, setting, dibs.TTL(time.Second))
			tx := begin(t, b.pool(t, setting), sql.LevelReadCommitted)
			b.must(t, tx, add)
			if err := Fence(within(t), tx, lock); err != nil {
				t.Fatal(err)
			}
			next, _ := hold(t, other, setting)
			if err := tx.Commit(); err == nil {
				t.Errorf("%s: committed after the key had passed on", setting)
			}
			b.worked(t, 0)
			if err := lock.Release(); !errors.Is(err, dibs.ErrLost) {
				t.Errorf("%s: release: %v", setting, err)
			}
			if err := next.Release(); err != nil {
				t.Error(err)
			}
		}
	})
}
