package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/dibsmem"
	"github.com/dibs-go/dibs/dibsmysql"
	"github.com/dibs-go/dibs/dibssqlite"
)

// library is dibs as its users have it: one Locker in a process, all defaults.
type library struct {
	*dibs.Locker
	counts *counted
	pool   *sql.DB // what the driver was given, if anything
}

// drive opens the driver of a store.
func drive(s store, workers int) (dibsdriver.Driver, *sql.DB, error) {
	switch s.Name {
	case "memory":
		return dibsmem.New(), nil, nil
	case "sqlite":
		d, err := dibssqlite.Open(s.locksFile(), nil)
		return d, nil, err
	default:
		db, err := s.pool(workers)
		if err != nil {
			return nil, nil, err
		}
		return dibsmysql.New(db, nil), db, nil
	}
}

func openDibs(s store, workers int) (contender, error) {
	d, pool, err := drive(s, workers)
	if err != nil {
		return nil, err
	}
	c := count(d)
	// The advice that a key is busy is no news here.
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	locker, err := dibs.New(c.asDriver(), &dibs.Config{Logger: log})
	if err != nil {
		return nil, err
	}
	l := &library{Locker: locker, counts: c, pool: pool}
	if err := locker.Ping(context.Background()); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *library) lock(ctx context.Context, key string) (int64, func() error, error) {
	lock, _, err := l.Acquire(ctx, key)
	if err != nil {
		return 0, nil, err
	}
	return lock.Token(), lock.Release, nil
}

func (l *library) acquisitions() int64 { return l.counts.acquired.Load() }

func (l *library) renewals() int64 { return l.counts.renewed.Load() }

func (l *library) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := l.Shutdown(ctx)
	if l.pool != nil {
		err = errors.Join(err, l.pool.Close())
	}
	return err
}

// bareDriver is the driver without the library in front of it: what remains of the difference to the statements is the driver's.
type bareDriver struct {
	dibsdriver.Driver
	pool *sql.DB
}

func openDriver(s store, workers int) (contender, error) {
	d, pool, err := drive(s, workers)
	return bareDriver{d, pool}, err
}

func (d bareDriver) lock(ctx context.Context, key string) (int64, func() error, error) {
	p := dibsdriver.AcquireParams{Key: key, Owner: rand.Text(), TTL: leaseTTL, Holder: "bench"}
	r, err := d.Acquire(ctx, p)
	if err == nil && !r.Acquired {
		err = fmt.Errorf("bench: key %s is busy, and nobody should have it", key)
	}
	return r.Token, func() error {
		return d.Release(context.Background(), dibsdriver.ReleaseParams{Key: key, Owner: p.Owner})
	}, err
}

func (d bareDriver) close() error {
	err := d.Close()
	if d.pool != nil {
		err = errors.Join(err, d.pool.Close())
	}
	return err
}

// leaseTTL is the life of all leases here, which is the library's default.
const leaseTTL = 30 * time.Second
