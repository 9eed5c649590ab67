package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// hold takes a key and keeps it until the end.
func (w *worker) hold(key string) error {
	ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
	defer cancel()
	_, unlock, err := w.contender.lock(ctx, key)
	if err == nil {
		w.held = append(w.held, unlock)
	}
	return err
}

// wait begins to wait for the key, so many times at once, until the end.
func (w *worker) wait(waiters int) {
	for range waiters {
		w.waiting.Go(func() {
			if _, unlock, err := w.contender.lock(w.ctx, keyName(w.job.Key)); err == nil {
				_ = unlock()
			}
		})
	}
}

// usage is what the process has used so far.
func (w *worker) usage() answer {
	a := answer{CPU: processorTime(), Sent: sent.Load()}
	if c, ok := w.contender.(counter); ok {
		a.Renewals = c.renewals()
	}
	return a
}

// leases takes so many keys and keeps them.
func (w *worker) leases(n int) (a answer, err error) {
	a.Goroutines = runtime.NumGoroutine()
	before := heap()
	began := time.Now()
	var mu sync.Mutex
	err = side(n, func(i int) error {
		_, unlock, err := w.contender.lock(w.ctx, fmt.Sprint("lease:", i))
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		w.held = append(w.held, unlock)
		return nil
	})
	a.Times = map[string][]time.Duration{"acquire": {time.Since(began)}}
	a.HeapMore = heap() - before
	a.More = runtime.NumGoroutine() - a.Goroutines
	return a, err
}

// heap is what lives in it.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what finalizers let go of
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// side does n things, a few at a time.
func side(n int, do func(i int) error) error {
	const few = 16
	errs := make([]error, few)
	var wg sync.WaitGroup
	for g := range few {
		wg.Go(func() {
			for i := g; i < n && errs[g] == nil; i += few {
				errs[g] = do(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// alone lets several contenders acquire and release in turns, with nobody else there, and tells how long each time took.
func (w *worker) alone(o order) (a answer, err error) {
	var opened []contender
	defer func() {
		for _, c := range opened {
			err = errors.Join(err, c.close())
		}
	}()
	for _, name := range o.Contenders {
		c, err := compete(name, w.job.Store, 1)
		if err != nil {
			return a, fmt.Errorf("%s: %w", name, err)
		}
		opened = append(opened, c)
	}
	a.Times = make(map[string][]time.Duration)
	warm, end := now().add(o.For/5), now().add(o.For/5+o.For)
	for i := 0; now() < end; i++ {
		for j := range opened {
			j = (i + j) % len(opened) // nobody is always first
			began := now()
			_, unlock, err := opened[j].lock(w.ctx, keyName(i%50))
			if err == nil {
				err = unlock()
			}
			if err != nil {
				return a, fmt.Errorf("%s: %w", o.Contenders[j], err)
			}
			if began >= warm {
				a.Times[o.Contenders[j]] = append(a.Times[o.Contenders[j]], now().sub(began))
			}
		}
	}
	return a, nil
}

// end lets go of everything.
func (w *worker) end() error {
	w.cancel()
	held := slices.Clone(w.held)
	err := side(len(held), func(i int) error { return held[i]() })
	w.waiting.Wait()
	if w.contender != nil {
		err = errors.Join(err, w.contender.close())
	}
	return err
}
