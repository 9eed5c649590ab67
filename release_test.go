package dibs_test

import (
	"context"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// asked lets a test answer whether others wait.
type asked struct {
	dibsdriver.Driver
	contended func(ctx context.Context) (bool, error)
}

func (a *asked) Contended(ctx context.Context, _ string) (bool, error) { return a.contended(ctx) }

// TestB19_ReleaseReturnsInTime: a store that hangs when it is asked whether others wait, and again when the lease is to be released, has one limit for both.
func TestB19_ReleaseReturnsInTime(t *testing.T) {
	const limit, took = 2 * time.Second, 600 * time.Millisecond // the store is far away
	bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
		questions := 0
		hang := func(ctx context.Context) (bool, error) {
			questions++
			<-ctx.Done()
			return false, ctx.Err()
		}
		l, err := dibs.New(&asked{h.driver, hang}, &dibs.Config{RequestTimeout: limit})
		want(t, err, nil)
		h.driver.OnAcquire(func(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
			time.Sleep(took)
			return h.store.Acquire(ctx, p)
		})
		lock, _, err := l.Acquire(t.Context(), "k")
		want(t, err, nil)
		next := make(chan error, 1)
		go func() { next <- l.Do(context.Background(), "k", func(context.Context) error { return nil }) }()
		time.Sleep(5 * time.Second)
		h.driver.OnRelease(func(ctx context.Context, _ dibsdriver.ReleaseParams) error {
			<-ctx.Done()
			return ctx.Err()
		})
		began := time.Now()
		err = lock.Release()
		if took := time.Since(began); took > limit {
			t.Errorf("Release took %s, and RequestTimeout is %s", took, limit)
		}
		want(t, err, dibs.ErrUnavailable)
		if _, _, n := h.driver.Counts(); questions != 1 || n == 0 {
			t.Errorf("%d questions, %d releases at the store", questions, n)
		}
		h.driver.OnRelease(nil)
		want(t, <-next, nil)
		want(t, l.Shutdown(t.Context()), nil)
	})
}
