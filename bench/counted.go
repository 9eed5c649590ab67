package main

import (
	"context"
	"sync/atomic"

	"github.com/dibs-go/dibs/dibsdriver"
)

// counted counts what a driver is asked for.
type counted struct {
	dibsdriver.Driver
	acquired atomic.Int64 // keys taken
	renewed  atomic.Int64 // requests to renew a batch
}

func count(d dibsdriver.Driver) *counted { return &counted{Driver: d} }

// Acquire counts the successes.
func (c *counted) Acquire(ctx context.Context, p dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
	r, err := c.Driver.Acquire(ctx, p)
	if err == nil && r.Acquired {
		c.acquired.Add(1)
	}
	return r, err
}

// Renew counts the requests.
func (c *counted) Renew(ctx context.Context, leases []dibsdriver.Renewal) ([]dibsdriver.RenewAnswer, error) {
	c.renewed.Add(1)
	return c.Driver.Renew(ctx, leases)
}

// asDriver has the optional methods that the driver itself has, and no others: the engine goes by them.
func (c *counted) asDriver() dibsdriver.Driver {
	w, wakes := c.Driver.(dibsdriver.Waker)
	l, leaves := c.Driver.(dibsdriver.Leaver)
	o, contends := c.Driver.(dibsdriver.Contender)
	switch {
	case wakes && leaves && contends:
		return struct {
			*counted
			dibsdriver.Waker
			dibsdriver.Leaver
			dibsdriver.Contender
		}{c, w, l, o}
	case wakes && leaves:
		return struct {
			*counted
			dibsdriver.Waker
			dibsdriver.Leaver
		}{c, w, l}
	case wakes && contends:
		return struct {
			*counted
			dibsdriver.Waker
			dibsdriver.Contender
		}{c, w, o}
	case leaves && contends:
		return struct {
			*counted
			dibsdriver.Leaver
			dibsdriver.Contender
		}{c, l, o}
	case wakes:
		return struct {
			*counted
			dibsdriver.Waker
		}{c, w}
	case leaves:
		return struct {
			*counted
			dibsdriver.Leaver
		}{c, l}
	case contends:
		return struct {
			*counted
			dibsdriver.Contender
		}{c, o}
	}
	return c
}
