package dibs_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/fencing"
)

func pin(t *testing.T, lock *dibs.Lock) fencing.Lease {
	t.Helper()
	l, err := fencing.Pin(lock)
	if err != nil {
		t.Fatal(err)
	}
	if l.Key != "k" || l.Token != lock.Token() || l.Owner == "" || l.Driver == nil {
		t.Errorf("pinned: %+v", l)
	}
	return l
}

// next is a waiter of this process, in line when it returns. Its token comes when it has the key, which it then releases.
func next(t *testing.T, h *house) chan int64 {
	got := make(chan int64, 1)
	go func() {
		lock, _, err := h.Acquire(t.Context(), "k")
		if err != nil {
			t.Error(err)
		}
		got <- lock.Token()
		want(t, lock.Release(), nil)
	}()
	synctest.Wait()
	return got
}

func none[T any](t *testing.T, c chan T, what string) {
	t.Helper()
	synctest.Wait()
	select {
	case <-c:
		t.Errorf("%s before the commit was over", what)
	default:
	}
}

// TestS7_ReleaseAndHandoffWaitForTheCommit: with a commit under way a section is neither released, nor handed to the next in this process; after it,
// it is handed on as ever.
func TestS7_ReleaseAndHandoffWaitForTheCommit(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		lock, _ := h.take(t)
		one, two := pin(t, lock), pin(t, lock)
		waiter := next(t, h)
		released := make(chan error, 1)
		go func() { released <- lock.Release() }()
		none(t, released, "released")
		one.Unpin()
		none(t, released, "released")
		none(t, waiter, "handed on")
		if h.left(t, "k") == 0 {
			t.Error("free before the commit was over")
		}
		if _, err := fencing.Pin(lock); err != dibs.ErrReleased {
			t.Errorf("a transaction that comes after the release: %v", err)
		}
		two.Unpin()
		want(t, <-released, nil)
		if token := <-waiter; token != lock.Token()+1 {
			t.Errorf("token %d after %d: it was not handed on", token, lock.Token())
		}
	})
}

// TestS7_UnseenCommit: where nobody can say when the commit is over, the store has to order it and what comes after: no handoff.
func TestS7_UnseenCommit(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		lock, _ := h.take(t)
		l := pin(t, lock)
		l.Unseen()
		l.Unpin()
		waiter := next(t, h)
		want(t, lock.Release(), nil)
		if token := <-waiter; token < lock.Token()+dibsdriver.TokenStep {
			t.Errorf("token %d after %d: it was handed on", token, lock.Token())
		}
	})
}

// TestS7_CommitThatHangs is waited for as long as for a request; then the store decides.
func TestS7_CommitThatHangs(t *testing.T) {
	bubble(t, dibs.Config{RequestTimeout: 3 * time.Second}, func(t *testing.T, h *house) {
		lock, _ := h.take(t)
		l := pin(t, lock)
		waiter := next(t, h)
		start := time.Now()
		want(t, lock.Release(), nil)
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("released after %s", took)
		}
		if token := <-waiter; token < lock.Token()+dibsdriver.TokenStep {
			t.Errorf("token %d after %d: it was handed on", token, lock.Token())
		}
		l.Unpin()
	})
}

func TestS7_PinRefuses(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		for _, over := range []*dibs.Lock{nil, {}} {
			if _, err := fencing.Pin(over); err != dibs.ErrReleased {
				t.Errorf("%v", err)
			}
		}
		if _, err := fencing.Pin("k"); err == nil {
			t.Error("a string was pinned")
		}
		lock, ctx := h.take(t, dibs.MaxHold(time.Second))
		<-ctx.Done()
		_, err := fencing.Pin(lock)
		want(t, err, dibs.ErrMaxHold)
		want(t, lock.Release(), dibs.ErrMaxHold)
		lock, ctx = h.take(t)
		h.store.Expire("k")
		<-ctx.Done()
		_, err = fencing.Pin(lock)
		want(t, err, dibs.ErrLost)
		want(t, lock.Release(), dibs.ErrLost)
	})
}

// free lets a commit release the lease, as the store sees it.
func free(t *testing.T, h *house, l fencing.Lease) {
	t.Helper()
	want(t, l.Freeing(), nil)
	want(t, h.driver.Driver.Release(t.Context(), dibsdriver.ReleaseParams{Key: l.Key, Owner: l.Owner, Keep: l.Keep()}), nil)
}

// TestReleasedByCommit: the lock is over, its waiters are served, and its Release has nothing to do.
func TestReleasedByCommit(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		lock, ctx := h.take(t)
		l := pin(t, lock)
		waiter := next(t, h)
		free(t, h, l)
		// A renewal finds out before the commit's answer comes: no reason for an alarm.
		want(t, lock.Verify(t.Context()), dibs.ErrLost)
		l.Freed(fencing.Committed)
		l.Unpin()
		if token := <-waiter; token < lock.Token()+dibsdriver.TokenStep {
			t.Errorf("token %d after %d", token, lock.Token())
		}
		if lock.Err() != dibs.ErrReleased || lock.Remaining() != 0 || lock.Verify(t.Context()) != dibs.ErrReleased || ctx.Err() == nil {
			t.Errorf("%v, %s", lock.Err(), lock.Remaining())
		}
		for _, want := range []error{nil, dibs.ErrReleased} {
			if err := lock.Release(); err != want {
				t.Errorf("%v, want %v", err, want)
			}
		}
		if got := h.heard(); got != "waited, acquired, released, waited, acquired, released" || h.logged("lost") != 0 {
			t.Error(got)
		}
	})
}

// TestReleasedByCommitWhileBeingReleased: the release waits, and then has nothing to do.
func TestReleasedByCommitWhileBeingReleased(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		lock, _ := h.take(t)
		l := pin(t, lock)
		free(t, h, l)
		released := make(chan error, 1)
		go func() { released <- lock.Release() }()
		none(t, released, "released")
		l.Freed(fencing.Committed)
		l.Unpin()
		want(t, <-released, nil)
		if n := len(h.driver.Released()); n != 0 {
			t.Errorf("%d releases were sent", n)
		}
	})
}

// TestCommitToReleaseFailed: the lock goes on; what was kept back meanwhile is told.
func TestCommitToReleaseFailed(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		lock, _ := h.take(t)
		l := pin(t, lock)
		want(t, l.Freeing(), nil)
		l.Freed(fencing.NotCommitted)
		l.Unpin()
		want(t, lock.Err(), nil)
		want(t, lock.Release(), nil)

		lock, _ = h.take(t)
		l = pin(t, lock)
		want(t, l.Freeing(), nil)
		h.store.Expire("k")
		want(t, lock.Verify(t.Context()), dibs.ErrLost)
		if h.logged("lost under") != 0 {
			t.Error("told before the commit was over")
		}
		l.Freed(fencing.NotCommitted)
		l.Unpin()
		if h.logged("lost under") != 1 {
			t.Error("not told")
		}
		want(t, lock.Release(), dibs.ErrLost)
	})
}

// TestCommitToReleaseUnknown: Release settles it, whatever became of the commit.
func TestCommitToReleaseUnknown(t *testing.T) {
	for _, committed := range []bool{true, false} {
		bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
			lock, ctx := h.take(t)
			l := pin(t, lock)
			if committed {
				free(t, h, l)
			} else {
				want(t, l.Freeing(), nil)
			}
			l.Freed(fencing.Unknown)
			l.Unpin()
			if committed { // a renewal finds nothing: the work's context ends, and that is all
				<-ctx.Done()
			}
			want(t, lock.Release(), nil)
			if h.left(t, "k") != 0 || h.logged("lost") != 0 {
				t.Error("held, or said to be lost")
			}
		})
	}
}

func TestCommitDoesNotReleaseUnderOthers(t *testing.T) {
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		lock, ctx := h.take(t, dibs.MinHold(time.Minute))
		inner, _, err := h.Acquire(ctx, "k", dibs.Reenter())
		want(t, err, nil)
		l := pin(t, inner)
		if err := l.Freeing(); err == nil || errors.Is(err, dibs.ErrReleased) {
			t.Errorf("%v", err)
		}
		l.Unpin()
		want(t, inner.Release(), nil)
		l = pin(t, lock)
		time.Sleep(20 * time.Second)
		if keep := l.Keep(); keep != 40*time.Second {
			t.Errorf("%s are left of the min hold", keep)
		}
		time.Sleep(time.Minute)
		if keep := l.Keep(); keep != 0 || l.TTL != 30*time.Second {
			t.Errorf("%s are left of the min hold, TTL %s", keep, l.TTL)
		}
		want(t, l.Verify(context.Background()), nil)
		l.Unpin()
		want(t, lock.Release(), nil)
	})
}
