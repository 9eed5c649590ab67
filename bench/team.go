package main

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// process is a worker process, as this program's first process sees it.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *gob.Encoder
	in    *gob.Decoder
}

// employ starts a worker process and lets it open what it needs.
func employ(ctx context.Context, j job) (p *process, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), workerEnv+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("bench: starting a worker process: %w", err)
	}
	p = &process{cmd: cmd, stdin: stdin, out: gob.NewEncoder(stdin), in: gob.NewDecoder(stdout)}
	if _, err := p.ask(order{Do: "open", Job: j}); err != nil {
		return nil, errors.Join(err, p.dismiss())
	}
	return p, nil
}

func (p *process) ask(o order) (a answer, err error) {
	if err := p.out.Encode(o); err != nil {
		return a, fmt.Errorf("bench: telling a worker process to %s: %w", o.Do, err)
	}
	if err := p.in.Decode(&a); err != nil {
		return a, fmt.Errorf("bench: a worker process that was told to %s: %w", o.Do, err)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

// dismiss ends the process, in order if it still can.
func (p *process) dismiss() error {
	_, err := p.ask(order{Do: "end"})
	return errors.Join(err, p.stdin.Close(), p.cmd.Wait())
}

// team are worker processes that work for the same key, or keys.
type team []*process

// gather starts so many processes, and divides the workers among them.
func gather(ctx context.Context, processes, workers int, j job) (t team, err error) {
	t = make(team, processes)
	errs := make([]error, processes)
	var wg sync.WaitGroup
	for i := range t {
		mine := j
		mine.First = workers * i / processes
		mine.Workers = workers*(i+1)/processes - mine.First
		wg.Go(func() { t[i], errs[i] = employ(ctx, mine) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, t.dismiss())
	}
	return t, nil
}

func (t team) dismiss() error {
	errs := make([]error, len(t))
	var wg sync.WaitGroup
	for i, p := range t {
		if p != nil {
			wg.Go(func() { errs[i] = p.dismiss() })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// startIn is time for the order to reach all processes: they begin at one moment.
const startIn = 200 * time.Millisecond

// run lets all of them work at once. It returns what all did, and the window.
func (t team) run(d time.Duration) (all answer, begin, end mono, err error) {
	begin = now().add(startIn)
	end = begin.add(d)
	answers, errs := make([]answer, len(t)), make([]error, len(t))
	var wg sync.WaitGroup
	for i, p := range t {
		wg.Go(func() { answers[i], errs[i] = p.ask(order{Do: "run", At: begin, For: d}) })
	}
	wg.Wait()
	for _, a := range answers {
		all.Sections = append(all.Sections, a.Sections...)
		all.Unfinished = append(all.Unfinished, a.Unfinished...)
		all.Acquisitions += a.Acquisitions
		all.Sent += a.Sent
		all.Faults += a.Faults
		if all.Fault == "" {
			all.Fault = a.Fault
		}
	}
	return all, begin, end, errors.Join(errs...)
}
