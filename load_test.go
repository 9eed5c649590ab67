package dibs_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dibs-go/dibs"
)

func TestLoadAdvice(t *testing.T) {
	bubble(t, dibs.Config{Prefix: "app/"}, func(t *testing.T, h *house) {
		for range 1001 {
			lock, _ := h.take(t)
			want(t, lock.Release(), nil...)
		}
		if n := h.logged("more than 1000 requests a second"); n != 1 {
			t.Errorf("logged %d times", n)
		}
		if e := h.event("load advice"); e.Key != "k" || !strings.Contains(e.Advice, "dibs.Shard") {
			t.Errorf("%+v", e)
		}
	})
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		lock, _ := h.take(t)
		ctx, cancel := context.WithCancel(context.Background())
		for range 50 {
			go h.Acquire(ctx, "k")
		}
		synctest.Wait()
		if n := h.logged("under heavy load"); n != 0 {
			t.Errorf("50 waiters were logged %d times", n)
		}
		go h.Acquire(ctx, "k")
		synctest.Wait()
		if n := h.logged("more than 50 waiters"); n != 1 {
			t.Errorf("51 waiters were logged %d times", n)
		}
		cancel()
		synctest.Wait()
		want(t, lock.Release(), nil...)
	})
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		want(t, h.Shutdown(t.Context()), nil)
		for range 1001 {
			_, _, err := h.TryAcquire(t.Context(), "k")
			want(t, err, dibs.ErrClosed)
		}
		if n := h.logged("more than 1000 requests"); n != 0 {
			t.Error("a Locker that is closed gives advice")
		}
	})
}
