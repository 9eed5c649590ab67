package call

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

func TestAnAnswerCanBeHadLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup()
		before := time.Now()
		c := Start(g, time.Second, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			if time.Since(before) != time.Second {
				t.Error("the request's context is not limited")
			}
			time.Sleep(time.Second) // a driver that does not care
			return 7, errors.New("late")
		})
		if c.Started != before {
			t.Error("does not count from the start")
		}
		time.Sleep(200 * time.Millisecond)
		if _, _, ok := c.Wait(time.Second); ok || time.Since(before) != time.Second {
			t.Errorf("waited %s", time.Since(before))
		}
		<-c.Done()
		if v, err := c.Result(); v != 7 || err == nil {
			t.Error(v, err)
		}
		if v, err, ok := c.Wait(0); v != 7 || err == nil || !ok {
			t.Error("an answer that is there was passed over", v, err, ok)
		}
		if err := g.Wait(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func TestADriversPanicIsAnError(t *testing.T) {
	c := Start(NewGroup(), time.Second, func(context.Context) (int, error) { panic("driver bug") })
	<-c.Done()
	if _, err := c.Result(); !errors.Is(err, dibsdriver.ErrRefused) || !strings.Contains(err.Error(), "driver bug") {
		t.Error(err)
	}
}

func TestGroupWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup()
		start := time.Now()
		g.Go(func(context.Context) {
			time.Sleep(time.Second)
			g.Go(func(context.Context) { time.Sleep(time.Second) })
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if err := g.Wait(ctx); err != context.DeadlineExceeded {
			t.Error(err)
		}
		go g.Wait(context.Background()) // two may wait
		if err := g.Wait(context.Background()); err != nil || time.Since(start) != 2*time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		g.Go(func(ctx context.Context) { <-ctx.Done() })
		g.Cancel()
		if err := g.Wait(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
