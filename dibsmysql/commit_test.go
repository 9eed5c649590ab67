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

// behind is the application's pool behind a wire.
func (b *bed) behind(t testing.TB, w *wire) *sql.DB {
	t.Helper()
	return opened(t, b.App.User+":"+b.App.Password+"@tcp("+w.addr()+")/"+b.database)
}

type inTxFunc = func(context.Context, *sql.DB, *dibs.Lock, func(*sql.Tx) error) error

// TestFact31_CommitReplyLost: a commit whose answer is lost is never said to be made, nor not to be made.
func TestFact31_CommitReplyLost(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		b.work(t)
		l := b.locker(t, "", nil)
		other := b.locker(t, "", nil)
		n := int64(0)
		for what, in := range map[string]inTxFunc{"InTx": InTx, "InTxAndRelease": InTxAndRelease} {
			for _, cut := range []bool{true, false} {
				w := newWire(t, b.Addr)
				db := b.behind(t, w)
				lock, _ := hold(t, l, "k")
				w.set(func(w *wire) { w.deafAt = commitPacket })
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- in(ctx, db, lock, b.adds(t)) }()
				n++
				eventually(t, "committed", func() bool { return b.number(t, "SELECT n FROM work WHERE id = 1") == n })
				if cut {
					w.cutAll()
				} else {
					cancel() // the connection stays, and stays silent
				}
				began := time.Now()
				err := <-done
				is(t, what, err, dibs.ErrOutcomeUnknown)
				if took := time.Since(began); took > commitGrace+time.Second {
					t.Errorf("%s: told after %s", what, took)
				}
				if errors.Is(err, context.Canceled) == cut {
					t.Errorf("%s: %v", what, err)
				}
				w.cutAll()
				// Whatever became of it, this settles it.
				if err := lock.Release(); err != nil {
					t.Errorf("%s: release: %v", what, err)
				}
				next, _ := hold(t, other, "k")
				if err := next.Release(); err != nil {
					t.Error(err)
				}
				eventually(t, "no connection is in use", func() bool { return db.Stats().InUse == 0 })
				cancel()
			}
		}
	})
}

// TestFact31_CommitLostOnItsWay: the same, and the commit never arrives: nothing was done, and the lock is there to be released.
func TestFact31_CommitLostOnItsWay(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		b.work(t)
		l := b.locker(t, "", nil)
		for what, in := range map[string]inTxFunc{"InTx": InTx, "InTxAndRelease": InTxAndRelease} {
			w := newWire(t, b.Addr)
			lock, _ := hold(t, l, "k")
			next := make(chan *dibs.Lock, 1)
			go func() {
				lock, _, err := l.Acquire(within(t), "k")
				if err != nil {
					t.Error(err)
				}
				next <- lock
			}()
			w.set(func(w *wire) { w.holdAt = commitPacket })
			done := make(chan error, 1)
			go func() { done <- in(within(t), b.behind(t, w), lock, b.adds(t)) }()
			<-w.held
			w.cutAll()
			close(w.resume)
			is(t, what, <-done, dibs.ErrOutcomeUnknown)
			b.worked(t, 0)
			if err := lock.Release(); err != nil {
				t.Errorf("%s: release: %v", what, err)
			}
			// The commit might still have been on its way, so that only the store can say when its row is free.
			after := <-next
			if after.Token() < lock.Token()+dibsdriver.TokenStep {
				t.Errorf("%s: token %d after %d: it was handed on", what, after.Token(), lock.Token())
			}
			if err := after.Release(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// TestFact36_CommitRefused: a server that refuses the commit has not committed, and will not later, when somebody else uses the connection.
func TestFact36_CommitRefused(t *testing.T) {
	t.Parallel()
	onBothAlone(t, nil, func(t *testing.T, b *bed) {
		b.work(t)
		db := b.pool(t, "")
		db.SetMaxOpenConns(1)
		lock, _ := hold(t, b.locker(t, "", nil), "k")
		w := newWire(t, b.Addr)
		behind := b.behind(t, w)
		behind.SetMaxOpenConns(1)
		w.set(func(w *wire) { w.holdAt = commitPacket })
		done := make(chan error, 1)
		go func() { done <- InTxAndRelease(within(t), behind, lock, b.adds(t)) }()
		<-w.held
		b.must(t, b.admin, "SET GLOBAL read_only = ON")
		close(w.resume)
		err := <-done
		is(t, "refused", err, dibs.ErrReadOnly, dibs.ErrUnavailable)
		if errors.Is(err, dibs.ErrOutcomeUnknown) {
			t.Error(err)
		}
		b.must(t, b.admin, "SET GLOBAL read_only = OFF")
		if err := lock.Err(); err != nil {
			t.Errorf("the lock: %v", err)
		}
		// BEGIN commits what is still open on its connection.
		tx := begin(t, behind, sql.LevelDefault)
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		b.worked(t, 0)
		if err := InTx(within(t), db, lock, b.adds(t)); err != nil {
			t.Error(err)
		}
		b.worked(t, 1)
	})
}

// TestS7_ReleaseWaitsForTheCommit: until the commit of InTx or InTxAndRelease is over the lease is neither released, nor handed to the next in this process, nor to
// anybody else.
func TestS7_ReleaseWaitsForTheCommit(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		b.work(t)
		l, other := b.locker(t, "", nil), b.locker(t, "", &dibs.Config{RequestTimeout: 30 * time.Second})
		slow := func(in inTxFunc) func(*dibs.Lock) func() error {
			return func(lock *dibs.Lock) func() error {
				w := newWire(t, b.Addr)
				w.set(func(w *wire) { w.holdAt = commitPacket })
				done := make(chan error, 1)
				go func() { done <- in(within(t), b.behind(t, w), lock, b.adds(t)) }()
				<-w.held
				return func() error { close(w.resume); return <-done }
			}
		}
		silent := func(in inTxFunc) func(*dibs.Lock) func() error {
			return func(lock *dibs.Lock) func() error {
				w := newWire(t, b.Addr)
				w.set(func(w *wire) { w.deafAt = commitPacket })
				done := make(chan error, 1)
				before := b.number(t, "SELECT n FROM work WHERE id = 1")
				go func() { done <- in(within(t), b.behind(t, w), lock, b.adds(t)) }()
				eventually(t, "committed", func() bool { return b.number(t, "SELECT n FROM work WHERE id = 1") > before })
				return func() error {
					w.cutAll()
					if err := <-done; !errors.Is(err, dibs.ErrOutcomeUnknown) {
						return err
					}
					return nil
				}
			}
		}
		for what, c := range map[string]struct {
			commit func(lock *dibs.Lock) (finish func() error)
			freed  bool // by what the store has committed, so that others may take the key
		}{
			"InTx, and the answer takes its time":           {silent(InTx), false},
			"InTx, and the commit takes its time":           {slow(InTx), false},
			"InTxAndRelease, and the answer takes its time": {silent(InTxAndRelease), true},
			"InTxAndRelease, and the commit takes its time": {slow(InTxAndRelease), false},
		} {
			lock, _ := hold(t, l, "k")
			_, owner, _ := b.peek(t, "k")
			finish := c.commit(lock)
			released := make(chan error, 1)
			go func() { released <- lock.Release() }()
			eventually(t, "it is being released", func() bool { return lock.Err() != nil })
			taken := make(chan error, 2)
			early := taken
			if c.freed {
				early = nil
			}
			for _, l := range []*dibs.Locker{l, other} {
				go func() {
					lock, _, err := l.Acquire(within(t), "k")
					taken <- err
					_ = lock.Release()
				}()
			}
			select { // enough for a release, and for a handoff, many times
			case err := <-released:
				t.Errorf("%s: released before the commit was over: %v", what, err)
				released <- err
			case err := <-early:
				t.Errorf("%s: taken before the commit was over: %v", what, err)
				taken <- err
			case <-time.After(500 * time.Millisecond):
			}
			if _, is, _ := b.peek(t, "k"); is != owner && !c.freed {
				t.Errorf("%s: before the commit was over, the lease was %q's", what, is)
			}
			if err := finish(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			for _, c := range []chan error{released, taken, taken} {
				if err := <-c; err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
	})
}
