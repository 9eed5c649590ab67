package dibsdrivertest

import (
	"context"

	"github.com/dibs-go/dibs/dibsdriver"
)

// faultyMoves send each move through the rules.
type faultyMoves struct{ f *FaultyDriver }

type faultyWaker struct{ f *FaultyDriver }

type faultyLeaver struct{ f *FaultyDriver }

func (m faultyMoves) Acquire(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
	c := &Call{Op: OpAcquire, Ctx: ctx, Keys: []string{p.Key}, Owner: p.Owner, apply: func(ctx context.Context, c *Call) (err error) {
		r, err := m.f.inner.Acquire(ctx, p)
		c.Acquired = r
		return err
	}}
	if err := m.f.do(c); err != nil {
		return dibsdriver.AcquireResult{}, err
	}
	return c.Acquired, nil
}

func (m faultyMoves) Renew(ctx context.Context, leases []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
	keys := make([]string, len(leases))
	for i, l := range leases {
		keys[i] = l.Key
	}
	c := &Call{Op: OpRenew, Ctx: ctx, Keys: keys, apply: func(ctx context.Context, c *Call) (err error) {
		answers, err := m.f.inner.Renew(ctx, leases)
		c.Answers = answers
		return err
	}}
	if err := m.f.do(c); err != nil {
		return nil, err
	}
	return c.Answers, nil
}

func (m faultyMoves) Release(ctx context.Context, p dibsdriver.ReleaseParams) error {
	return m.f.do(&Call{Op: OpRelease, Ctx: ctx, Keys: []string{p.Key}, Owner: p.Owner, apply: func(ctx context.Context, _ *Call) error {
		return m.f.inner.Release(ctx, p)
	}})
}

func (m faultyMoves) List(ctx context.Context, prefix string) (records []dibsdriver.Record, err error) {
	err = m.f.do(&Call{Op: OpList, Ctx: ctx, apply: func(ctx context.Context, _ *Call) (err error) {
		records, err = m.f.inner.List(ctx, prefix)
		return err
	}})
	return records, err
}

func (m faultyMoves) Break(ctx context.Context, p dibsdriver.BreakParams) (record dibsdriver.Record, err error) {
	err = m.f.do(&Call{Op: OpBreak, Ctx: ctx, Keys: []string{p.Key}, apply: func(ctx context.Context, _ *Call) (err error) {
		record, err = m.f.inner.Break(ctx, p)
		return err
	}})
	return record, err
}

func (m faultyMoves) Ping(ctx context.Context) error {
	return m.f.do(&Call{Op: OpPing, Ctx: ctx, apply: func(ctx context.Context, _ *Call) error { return m.f.inner.Ping(ctx) }})
}

func (m faultyMoves) Limits() (dibsdriver.Limits, error) { return m.f.inner.Limits() }

// Close waits for the requests that are still to be applied late, as they must not find a closed driver.
func (m faultyMoves) Close() error {
	m.f.late.Wait()
	return m.f.inner.Close()
}

func (m faultyWaker) Wait(ctx context.Context, p dibsdriver.WaitParams) error {
	return m.f.do(&Call{Op: OpWait, Ctx: ctx, Keys: []string{p.Key}, apply: func(ctx context.Context, _ *Call) error {
		return m.f.inner.(dibsdriver.Waker).Wait(ctx, p)
	}})
}

func (m faultyLeaver) Leave(ctx context.Context, p dibsdriver.WaitParams) error {
	return m.f.do(&Call{Op: OpLeave, Ctx: ctx, Keys: []string{p.Key}, apply: func(ctx context.Context, _ *Call) error {
		return m.f.inner.(dibsdriver.Leaver).Leave(ctx, p)
	}})
}

// Contended of a driver that cannot tell is what the engine assumes then.
func (m faultyMoves) Contended(ctx context.Context, key string) (others bool, err error) {
	c, ok := m.f.inner.(dibsdriver.Contender)
	if !ok {
		return true, nil
	}
	err = m.f.do(&Call{Op: OpContended, Ctx: ctx, Keys: []string{key}, apply: func(ctx context.Context, _ *Call) (err error) {
		others, err = c.Contended(ctx, key)
		return err
	}})
	return others, err
}
