package settle

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/dibs-go/dibs/dibsdriver"
)

// TestTakeBackGoesOnWhileTheStoreIsAway: only "not there" says that nothing is left, and no other error does.
func TestTakeBackGoesOnWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		tries := 0
		h.driver.OnRelease(func(ctx context.Context, p dibsdriver.ReleaseParams) error {
			if tries++; tries < 3 {
				return dibsdriver.ErrUnavailable
			}
			return h.store.Release(ctx, p)
		})
		h.TakeBack("k", "me", ttl, h.call(func(ctx context.Context) (dibsdriver.AcquireResult, error) {
			h.acquire(ctx)
			return dibsdriver.AcquireResult{}, dibsdriver.Settled(errors.New("interrupted"))
		}))
		h.idleAfter(t, 0)
		if h.held(t) || tries != 3 {
			t.Errorf("held %v after %d tries", h.held(t), tries)
		}
	})
}
