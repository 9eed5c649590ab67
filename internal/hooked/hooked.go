// Package hooked wraps a store for the tests of the engine's rooms, so that a test can stand between them and the store.
package hooked

import (
	"context"
	"slices"
	"sync"

	"github.com/dibs-go/dibs/dibsdriver"
)

// Driver calls its hooks, where they are set, instead of the driver that it wraps. It hides the interfaces for waiters, which poll.
type Driver struct {
	dibsdriver.Driver

	mu       sync.Mutex
	acquire  func(context.Context, dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error)
	renew    func(context.Context, []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error)
	release  func(context.Context, dibsdriver.ReleaseParams) error
	acquired []dibsdriver.AcquireParams
	renewals [][]dibsdriver.Renewal
	released []dibsdriver.ReleaseParams
	limits   *dibsdriver.Limits
}

// New wraps a driver.
func New(d dibsdriver.Driver) *Driver { return &Driver{Driver: d} }

// OnAcquire sets the hook of Acquire; nil removes it.
func (d *Driver) OnAcquire(f func(context.Context, dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acquire = f
}

// OnRenew sets the hook of Renew; nil removes it.
func (d *Driver) OnRenew(f func(context.Context, []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.renew = f
}

// OnRelease sets the hook of Release; nil removes it.
func (d *Driver) OnRelease(f func(context.Context, dibsdriver.ReleaseParams) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.release = f
}

// SetLimits replaces the limits.
func (d *Driver) SetLimits(l dibsdriver.Limits) { d.limits = &l }

// Limits implements dibsdriver.Driver.
func (d *Driver) Limits() (dibsdriver.Limits, error) {
	if d.limits != nil {
		return *d.limits, nil
	}
	return d.Driver.Limits()
}

// Acquire implements dibsdriver.Driver.
func (d *Driver) Acquire(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
	d.mu.Lock()
	f := d.acquire
	d.acquired = append(d.acquired, p)
	d.mu.Unlock()
	if f != nil {
		return f(ctx, p)
	}
	return d.Driver.Acquire(ctx, p)
}

// Renew implements dibsdriver.Driver.
func (d *Driver) Renew(ctx context.Context, leases []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
	d.mu.Lock()
	f := d.renew
	d.renewals = append(d.renewals, leases)
	d.mu.Unlock()
	if f != nil {
		return f(ctx, leases)
	}
	return d.Driver.Renew(ctx, leases)
}

// Release implements dibsdriver.Driver.
func (d *Driver) Release(ctx context.Context, p dibsdriver.ReleaseParams) error {
	d.mu.Lock()
	f := d.release
	d.released = append(d.released, p)
	d.mu.Unlock()
	if f != nil {
		return f(ctx, p)
	}
	return d.Driver.Release(ctx, p)
}

// Contended implements dibsdriver.Contender as the wrapped driver does.
func (d *Driver) Contended(ctx context.Context, key string) (bool, error) {
	c, ok := d.Driver.(dibsdriver.Contender)
	if !ok {
		return true, nil
	}
	return c.Contended(ctx, key)
}

// Counts returns how often each move was asked for.
func (d *Driver) Counts() (acquires, renewals, releases int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.acquired), len(d.renewals), len(d.released)
}

// Acquired returns the arguments of all acquires so far.
func (d *Driver) Acquired() []dibsdriver.AcquireParams {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.acquired)
}

// Renewed returns the batches of all renewals so far.
func (d *Driver) Renewed() [][]dibsdriver.Renewal {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.renewals)
}

// Released returns the arguments of all releases so far.
func (d *Driver) Released() []dibsdriver.ReleaseParams {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.released)
}
