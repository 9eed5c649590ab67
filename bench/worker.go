package main

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// workerEnv, if set, makes of this program a worker process, which takes orders on stdin and answers on stdout.
const workerEnv = "DIBS_BENCH_WORKER"

// job is what a worker process is there for.
type job struct {
	Store          store
	Contender      string // "" if it opens what it needs itself
	Workers, First int    // how many, and the number of the first among those of all processes
	Key            int
	Different      bool // each worker has its own key, from Key on
	Work, Pause    time.Duration
}

// order is what a worker process is told.
type order struct {
	Do         string
	Job        job
	At         mono          // when to begin
	For        time.Duration // how long
	Count      int
	Contenders []string
}

// answer is what it says.
type answer struct {
	Error            string
	Sections         []section
	Unfinished       []time.Duration // waits that had not ended with the window
	Faults           int             // calls that failed
	Fault            string          // the first of them
	Acquisitions     int64           // from the store
	Renewals, Sent   int64
	CPU              time.Duration
	Goroutines, More int   // before, and more by now
	HeapMore         int64 // bytes
	Times            map[string][]time.Duration
}

type worker struct {
	job       job
	contender contender
	ctx       context.Context // ends with the last order
	cancel    context.CancelFunc
	waiting   sync.WaitGroup
	held      []func() error
}

// serve is a worker process. It ends when the one that started it does.
func serve() int {
	in, out := gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)
	w := &worker{}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	for {
		var o order
		if err := in.Decode(&o); err != nil {
			if errors.Is(err, io.EOF) {
				return 0
			}
			fmt.Fprintln(os.Stderr, "bench: worker process:", err)
			return 1
		}
		a, err := w.obey(o)
		if err != nil {
			a.Error = err.Error()
		}
		if err := out.Encode(a); err != nil {
			return 1
		}
		if o.Do == "end" {
			return 0
		}
	}
}

func (w *worker) obey(o order) (a answer, err error) {
	switch o.Do {
	case "open":
		return a, w.open(o.Job)
	case "run":
		return w.run(o), nil
	case "hold":
		return a, w.hold(keyName(w.job.Key))
	case "wait":
		w.wait(o.Count)
		return a, nil
	case "usage":
		return w.usage(), nil
	case "leases":
		return w.leases(o.Count)
	case "alone":
		return w.alone(o)
	case "end":
		return a, w.end()
	}
	return a, fmt.Errorf("bench: unknown order %q", o.Do)
}

// open also takes and releases a key, so that connections and statements are there when it begins.
func (w *worker) open(j job) (err error) {
	w.job = j
	if j.Contender == "" {
		return nil
	}
	if w.contender, err = compete(j.Contender, j.Store, j.Workers); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
	defer cancel()
	_, unlock, err := w.contender.lock(ctx, keyName(0))
	if err != nil {
		return err
	}
	return unlock()
}

// run lets the workers take turns, or use a key each, from one moment to another.
func (w *worker) run(o order) (a answer) {
	end := o.At.add(o.For)
	ctx, cancel := context.WithTimeout(w.ctx, end.sub(now()))
	defer cancel()
	before, sentBefore := w.taken(), sent.Load()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range w.job.Workers {
		wg.Go(func() {
			s := turnsOf{worker: w.job.First + i, job: &w.job, key: keyName(w.job.Key)}
			if w.job.Different {
				s.key = keyName(w.job.Key + s.worker)
			}
			time.Sleep(o.At.sub(now()))
			s.take(ctx, w.contender, end)
			mu.Lock()
			defer mu.Unlock()
			a.Sections = append(a.Sections, s.sections...)
			a.Unfinished = append(a.Unfinished, s.unfinished...)
			a.Faults += s.faults
			if s.fault != nil && a.Fault == "" {
				a.Fault = s.fault.Error()
			}
		})
	}
	wg.Wait()
	a.Acquisitions, a.Sent = int64(len(a.Sections)), sent.Load()-sentBefore
	if c, ok := w.contender.(counter); ok {
		a.Acquisitions = c.acquisitions() - before
	}
	return a
}

func (w *worker) taken() int64 {
	if c, ok := w.contender.(counter); ok {
		return c.acquisitions()
	}
	return 0
}

// turnsOf are the turns of one worker.
type turnsOf struct {
	worker     int
	job        *job
	key        string
	sections   []section
	unfinished []time.Duration
	faults     int
	fault      error
}

func (t *turnsOf) take(ctx context.Context, c contender, end mono) {
	for {
		asked := now()
		if asked >= end {
			return
		}
		token, unlock, err := c.lock(ctx, t.key)
		got := now()
		if got >= end {
			t.unfinished = append(t.unfinished, end.sub(asked))
			if err == nil {
				t.failed(unlock())
			}
			return
		}
		if err != nil {
			t.failed(err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if t.job.Work > 0 {
			time.Sleep(t.job.Work)
		}
		done := now()
		t.failed(unlock())
		t.sections = append(t.sections, section{Worker: t.worker, Start: got, End: done, Wait: got.sub(asked), Token: token})
		if t.job.Pause > 0 {
			time.Sleep(t.job.Pause)
		}
	}
}

func (t *turnsOf) failed(err error) {
	if err == nil {
		return
	}
	t.faults++
	if t.fault == nil {
		t.fault = err
	}
}
