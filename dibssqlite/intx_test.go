package dibssqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
)

func TestS7_InTx(t *testing.T) {
	t.Parallel()
	fencedWays(t, nil, func(t *testing.T, b *bench) {
		lock, ctx := hold(t, b.locker, "k")
		inUse := b.db.Stats().InUse // the driver keeps one, if the pool is its own as well
		err := InTx(ctx, b.db, lock, func(tx *sql.Tx) error {
			// The write lock is there from the start.
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
		if err := lock.Verify(within(t)); err != nil {
			t.Error(err)
		}
		boom := errors.New("boom")
		fail := func(tx *sql.Tx) error { return errors.Join(adds(tx), boom) }
		if err := InTx(ctx, b.db, lock, fail); !errors.Is(err, boom) {
			t.Errorf("%v", err)
		}
		func() {
			defer func() {
				if r := recover(); r != boom {
					t.Errorf("recovered %v", r)
				}
			}()
			_ = InTx(ctx, b.db, lock, func(tx *sql.Tx) error { _ = adds(tx); panic(boom) })
		}()
		var exit sync.WaitGroup
		exit.Go(func() {
			_ = InTx(ctx, b.db, lock, func(tx *sql.Tx) error { _ = adds(tx); runtime.Goexit(); return nil })
		})
		exit.Wait()
		if err := InTx(ctx, b.db, lock, func(tx *sql.Tx) error { return errors.Join(adds(tx), tx.Rollback()) }); !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("ended by fn: %v", err)
		}
		b.worked(t, 1)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if err := InTx(within(t), b.db, lock, adds); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		b.worked(t, 11)
		if n := b.db.Stats().InUse; n > inUse {
			t.Errorf("%d connections are in use", n)
		}
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
	})
}

// TestInTxContextEnds: the transaction is rolled back, and the context's error is there, whatever fn returns.
func TestInTxContextEnds(t *testing.T) {
	t.Parallel()
	fencedWays(t, nil, func(t *testing.T, b *bench) {
		lock, _ := hold(t, b.locker, "k")
		why, boom := errors.New("why"), errors.New("boom")
		for _, says := range []error{nil, boom} {
			for _, in := range []func(context.Context, *sql.DB, *dibs.Lock, func(*sql.Tx) error) error{InTx, InTxAndRelease} {
				ctx, cancel := context.WithCancelCause(t.Context())
				err := in(ctx, b.db, lock, func(tx *sql.Tx) error {
					err := adds(tx)
					cancel(why)
					return errors.Join(err, says)
				})
				if !errors.Is(err, context.Canceled) || !errors.Is(err, why) || says != nil && !errors.Is(err, boom) || errors.Is(err, dibs.ErrOutcomeUnknown) {
					t.Errorf("%v", err)
				}
				if err := in(ctx, b.db, lock, adds); !errors.Is(err, context.Canceled) {
					t.Errorf("begun after its context: %v", err)
				}
			}
		}
		// It ends while it waits for the file.
		writer := begin(t, b.look, add)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		is(t, "locked", InTx(ctx, b.db, lock, adds), context.DeadlineExceeded, dibs.ErrUnavailable)
		if err := writer.Rollback(); err != nil {
			t.Error(err)
		}
		b.worked(t, 0)
		if err := lock.Err(); err != nil {
			t.Error(err)
		}
	})
}

// TestS7_LostUnderFn: fn that takes longer than the lease lives, in a file in which nobody can renew it meanwhile.
func TestS7_LostUnderFn(t *testing.T) {
	t.Parallel()
	fencedWays(t, nil, func(t *testing.T, b *bench) {
		for what, in := range map[string]func(context.Context, *sql.DB, *dibs.Lock, func(*sql.Tx) error) error{"InTx": InTx, "InTxAndRelease": InTxAndRelease} {
			lock, ctx := hold(t, b.locker, what, dibs.TTL(300*time.Millisecond))
			err := in(within(t), b.db, lock, func(tx *sql.Tx) error {
				<-ctx.Done()
				return adds(tx)
			})
			is(t, what, err, dibs.ErrLost)
		}
		b.worked(t, 0)
	})
}

func TestS7_InTxAndRelease(t *testing.T) {
	t.Parallel()
	var released, lost atomic.Int32
	cfg := &dibs.Config{Events: dibs.Events{Released: func(dibs.Event) { released.Add(1) }, Lost: func(dibs.Event) { lost.Add(1) }}}
	t.Run("ways", func(t *testing.T) {
		fencedWays(t, cfg, func(t *testing.T, b *bench) {
			other := locker(t, open(t, b.path), nil)
			lock, ctx := hold(t, b.locker, "k")
			boom := func(tx *sql.Tx) error { return errors.Join(adds(tx), errors.New("boom")) }
			if err := InTxAndRelease(ctx, b.db, lock, boom); err == nil || lock.Err() != nil {
				t.Errorf("after fn's error: %v, %v", err, lock.Err())
			}
			if err := InTxAndRelease(ctx, b.db, lock, adds); err != nil {
				t.Fatal(err)
			}
			b.worked(t, 1)
			if lock.Err() != dibs.ErrReleased || context.Cause(ctx) != dibs.ErrReleased || lock.Verify(within(t)) != dibs.ErrReleased {
				t.Errorf("%v, %v", lock.Err(), context.Cause(ctx))
			}
			next, _, err := other.TryAcquire(within(t), "k")
			if err != nil {
				t.Fatal(err)
			}
			is(t, "once more", InTxAndRelease(within(t), b.db, lock, adds), dibs.ErrReleased)
			for i, want := range []error{nil, dibs.ErrReleased} {
				if err := lock.Release(); err != want {
					t.Errorf("release %d: %v, want %v", i, err, want)
				}
			}
			if err := next.Release(); err != nil {
				t.Errorf("somebody released the next one's: %v", err)
			}
			var all sync.WaitGroup
			for range 5 {
				all.Go(func() {
					err := b.locker.Do(within(t), "k", func(ctx context.Context) error {
						lock, _ := dibs.FromContext(ctx, "k")
						return InTxAndRelease(ctx, b.db, lock, adds)
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			b.worked(t, 6)
			lock, _ = hold(t, b.locker, "min", dibs.MinHold(time.Hour))
			if err := InTxAndRelease(within(t), b.db, lock, adds); err != nil {
				t.Error(err)
			}
			if _, _, err := other.TryAcquire(within(t), "min"); !errors.Is(err, dibs.ErrBusy) {
				t.Errorf("in its min hold: %v", err)
			}
			lock, ctx = hold(t, b.locker, "twice")
			inner, _, err := b.locker.Acquire(ctx, "twice", dibs.Reenter())
			if err != nil {
				t.Fatal(err)
			}
			for _, lock := range []*dibs.Lock{lock, inner} {
				if err := InTxAndRelease(within(t), b.db, lock, adds); err == nil || !strings.Contains(err.Error(), "2 times") {
					t.Errorf("%v", err)
				}
			}
			b.worked(t, 7)
			if err := errors.Join(inner.Release(), InTxAndRelease(within(t), b.db, lock, adds), lock.Release()); err != nil {
				t.Error(err)
			}
			b.worked(t, 8)
		})
	})
	eventually(t, "all releases are told", func() bool { return released.Load() == 3*8 })
	if n := lost.Load(); n != 0 {
		t.Errorf("%d locks are said to be lost", n)
	}
}

// TestS7_ReleaseWaitsForTheCommit: until a fenced transaction is over its lease is neither released, nor handed to the next in this process, nor to
// anybody else.
func TestS7_ReleaseWaitsForTheCommit(t *testing.T) {
	t.Parallel()
	fencedWays(t, &dibs.Config{RequestTimeout: 10 * time.Second}, func(t *testing.T, b *bench) {
		lock, _ := hold(t, b.locker, "k")
		other := locker(t, open(t, b.path), nil)
		taken := make(chan error, 2)
		acquire := func(l *dibs.Locker) {
			lock, _, err := l.Acquire(within(t), "k")
			taken <- err
			_ = lock.Release()
		}
		go acquire(b.locker)
		tx := begin(t, b.db, add)
		if err := Fence(within(t), tx, lock); err != nil {
			t.Fatal(err)
		}
		released := make(chan error, 1)
		go func() { released <- lock.Release() }()
		go acquire(other)
		select { // enough for a release, and for a handoff, many times
		case err := <-released:
			t.Errorf("released before the commit was over: %v", err)
			released <- err
		case err := <-taken:
			t.Errorf("taken before the commit was over: %v", err)
			taken <- err
		case <-time.After(500 * time.Millisecond):
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		for _, c := range []chan error{released, taken, taken} {
			if err := <-c; err != nil {
				t.Error(err)
			}
		}
		b.worked(t, 1)
	})
}

// TestInTxSectionOver: a section that ends while fn runs ends its transaction.
func TestInTxSectionOver(t *testing.T) {
	t.Parallel()
	b := newBench(t, "New")
	l := locker(t, b.driver, &dibs.Config{RequestTimeout: 200 * time.Millisecond, TTL: 2 * time.Second})
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
