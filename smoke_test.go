package dibs_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsmem"
)

func TestSmoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := dibs.New(dibsmem.New(), nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		lock, wctx, err := l.Acquire(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.TryAcquire(ctx, "k"); !errors.Is(err, dibs.ErrBusy) {
			t.Fatal(err)
		}
		t.Log(l.TryDo(ctx, "k", nil))
		_, _, err = l.Acquire(wctx, "k")
		t.Log(err)
		time.Sleep(2 * time.Minute)
		if lock.Err() != nil || wctx.Err() != nil {
			t.Fatal(lock.Err(), wctx.Err())
		}
		infos, _ := l.Locks(ctx, "")
		t.Log(infos)
		var wg sync.WaitGroup
		var order []int
		for i := range 200 {
			wg.Go(func() {
				err := l.Do(ctx, "k", func(context.Context) error { order = append(order, i); time.Sleep(time.Second); return nil })
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		_, _, err = l.Acquire(ctx, "k", dibs.MaxWait(time.Second))
		t.Log(err)
		if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
		t.Log(lock.Release())
		wg.Wait()
		for i := range order {
			if order[i] != i {
				t.Fatal(order)
			}
		}
		if err := l.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
	})
}
