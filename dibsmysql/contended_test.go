package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// TestContended: a holder is told of waiters, and with the answer the first of them is next.
func TestContended(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		for _, young := range []bool{true, false} {
			holder, other := b.driver(t, ""), b.driver(t, "")
			owner, _ := take(t, holder, "k", time.Minute)
			if !young {
				eventually(t, "the holder has the baton", func() bool { return !b.batonFree(t, holder, "k") })
			}
			for range 3 { // a claim of our own that is just being made may be taken for another's
				eventually(t, "the holder is told that nobody waits", func() bool {
					others, err := holder.Contended(within(t), "k")
					return err == nil && !others
				})
			}
			woken := waits(t, other, "k", newOwner())
			eventually(t, "the waiter waits in the server, or has its turn", func() bool { return b.inLine(t) == 1 || other.batons.wake("k") })
			// That the server has the statement does not mean that it stands in line already.
			eventually(t, "the holder is told of it", func() bool {
				others, err := holder.Contended(within(t), "k")
				return err == nil && others
			})
			release(t, holder, "k", owner)
			if err := <-woken; err != nil {
				t.Error(err)
			}
			if err := other.Close(); err != nil {
				t.Error(err)
			}
			eventually(t, "the baton is free", func() bool { return b.batonFree(t, holder, "k") })
		}
	})
}

// TestReleasedWhileAsked: a key that is released while its holder asks for waiters leaves no baton, and no connection, behind.
func TestReleasedWhileAsked(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		for _, waited := range []bool{true, false} {
			w := newWire(t, b.Addr)
			d := b.through(t, w, "")
			var owner string
			if waited {
				owner = b.takeAfterWaiting(t, d, "k")
			} else {
				owner, _ = take(t, d, "k", time.Minute)
			}
			eventually(t, "the holder has the baton", func() bool { return !b.batonFree(t, d, "k") && !d.claiming("k") })
			w.set(func(w *wire) { w.holdAt = "+ 2 * IS_FREE_LOCK" })
			asked := make(chan error, 1)
			go func() {
				_, err := d.Contended(within(t), "k")
				asked <- err
			}()
			<-w.held
			release(t, d, "k", owner)
			close(w.resume)
			if err := <-asked; err != nil {
				t.Error(err)
			}
			eventually(t, "the baton is free", func() bool { return b.batonFree(t, d, "k") })
			eventually(t, "no connection is out but the keeper's", func() bool { return d.db.Stats().InUse == 1 && d.waitingConns() == 0 })
		}
	})
}

// takeAfterWaiting takes a key for which d waited in the server, and so has its baton on a connection of its own.
func (b *bed) takeAfterWaiting(t *testing.T, d *Driver, key string) (owner string) {
	t.Helper()
	holder := b.driver(t, "")
	before := b.holds(t, holder, key)
	p := params(key, time.Minute)
	w, woken := b.waiter(t, d, key)
	p.Waiter = w
	release(t, holder, key, before)
	if err := <-woken; err != nil {
		t.Fatal(err)
	}
	if r, err := d.Acquire(within(t), p); err != nil || !r.Acquired {
		t.Fatalf("%+v, %v", r, err)
	}
	if d.waitingConns() != 1 {
		t.Fatal("it did not wait on a connection of its own")
	}
	return p.Owner
}

func (d *Driver) waitingConns() int {
	d.batons.mu.Lock()
	defer d.batons.mu.Unlock()
	return d.batons.waiting
}

// claiming tells whether there is a claim for the key that is not made yet.
func (d *Driver) claiming(key string) bool {
	d.batons.mu.Lock()
	defer d.batons.mu.Unlock()
	c := d.batons.claims.all[key]
	return c != nil && c.conn == nil
}

// TestAClaimIsMadeAgain after a waiter had the baton and left: those who come next wait in the server again.
func TestAClaimIsMadeAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		holder, other := b.driver(t, ""), b.driver(t, "")
		owner := b.holds(t, holder, "k")
		w, woken := b.waiter(t, other, "k")
		eventually(t, "the holder is told of it", func() bool {
			others, err := holder.Contended(within(t), "k")
			return err == nil && others
		})
		eventually(t, "the waiter has the baton", func() bool { return other.waitingConns() == 1 && b.inLine(t) == 0 })
		if err := other.Leave(within(t), dibsdriver.WaitParams{Key: "k", Waiter: w}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the holder has the baton again", func() bool { return !holder.claiming("k") })
		release(t, holder, "k", owner)
		if err := <-woken; err != nil {
			t.Error(err)
		}
	})
}

// TestAskedWhileTheKeeperIsBusy: a question that could not be sent leaves the baton with who has it, to be given away by the release.
func TestAskedWhileTheKeeperIsBusy(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		for _, released := range []bool{false, true} {
			d := b.driver(t, "")
			owner, _ := take(t, d, "k", time.Minute)
			eventually(t, "the holder has the baton", func() bool { return !d.claiming("k") })
			conn := <-d.keeper.slot // a renewal under way
			asked := make(chan error, 1)
			go func() {
				others, err := d.Contended(within(t), "k")
				if !others {
					t.Error("told for certain that nobody waits")
				}
				asked <- err
			}()
			if released {
				eventually(t, "it asks", func() bool { return d.asking("k") })
				release(t, d, "k", owner)
			}
			if err := <-asked; err != nil {
				t.Error(err)
			}
			d.keeper.put(conn, false)
			if !released {
				release(t, d, "k", owner)
			}
			eventually(t, "the baton is free", func() bool { return b.batonFree(t, d, "k") })
		}
	})
}

// asking tells whether Contended has the claim of the key.
func (d *Driver) asking(key string) bool {
	d.batons.mu.Lock()
	defer d.batons.mu.Unlock()
	c := d.batons.claims.all[key]
	return c != nil && c.lent
}

// TestALapsedLeaseHandsItsBatonOn to the next of the same process, and the last release gives it away.
func TestALapsedLeaseHandsItsBatonOn(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		first, _ := take(t, d, "k", time.Minute)
		eventually(t, "the holder has the baton", func() bool { return !d.claiming("k") })
		b.must(t, b.admin, "UPDATE dibs_leases SET expires = '1970-01-01'") // and nobody has noticed
		second, _ := take(t, d, "k", time.Minute)
		eventually(t, "the next has it", func() bool { return !d.claiming("k") })
		if err := d.Release(within(t), dibsdriver.ReleaseParams{Key: "k", Owner: first}); !errors.Is(err, dibs.ErrLost) {
			t.Error(err)
		}
		if b.batonFree(t, d, "k") {
			t.Error("the first has given away what was the second's")
		}
		release(t, d, "k", second)
		eventually(t, "the baton is free", func() bool { return b.batonFree(t, d, "k") })
	})
}

// TestAWishIsGivenUp, also if the keeper's connection is busy for longer than that is waited for.
func TestAWishIsGivenUp(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		holder := b.driver(t, "")
		owner, _ := take(t, holder, "k", time.Minute)
		d := New(b.pool(t, ""), &Config{WaitConnections: -1})
		defer d.Close()
		take(t, d, "other", time.Minute) // so that it has a keeper
		ctx, cancel := context.WithCancel(t.Context())
		p := params("k", time.Minute)
		p.Waiter = newOwner()
		if r, err := d.Acquire(within(t), p); err != nil || r.Acquired {
			t.Fatalf("%+v, %v", r, err)
		}
		ended := make(chan error, 1)
		go func() { ended <- d.Wait(ctx, dibsdriver.WaitParams{Key: "k", Waiter: p.Waiter}) }()
		free := func() bool {
			return b.number(t, "SELECT IS_FREE_LOCK("+wish(d.batonName(d.server.Load(), "k"))+")") == 1
		}
		eventually(t, "it has the wish", func() bool { return !free() })
		var conn *sql.Conn
		for conn == nil {
			conn = d.keeper.idle()
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		d.keeper.put(conn, false)
		eventually(t, "the wish is free", free)
		release(t, holder, "k", owner)
	})
}
