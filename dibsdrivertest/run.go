package dibsdrivertest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

// testcase is one subtest. Its name begins with the guarantee or the incident it is about.
type testcase struct {
	name  string
	run   func(e *env)
	needs need
}

// need is what a case asks of the store; a case whose needs the store cannot meet is not part of its suite.
type need uint

const (
	realTime   need = 1 << iota // measures the real world (goroutines, races), even for a store in memory
	alone                       // measures this process, and so runs beside nothing else in it
	processes                   // starts helper processes on the store
	stepsClock                  // ClockStepper
	removesRow                  // RowRemover
	countsLine                  // QueueCounter
	blocks                      // Blocker
	queues                      // Limits.Queues
	wakes                       // the driver is a dibsdriver.Waker
	freeTTL                     // each call may choose its TTL
	networked                   // Networked
	sessions                    // SessionCounter
	heavy                       // keeps the machine busy
	fences                      // Fencer
	writers                     // a Fencer with more than one writer at a time
	quick                       // a thousand transactions are over in seconds
)

// topics are all cases, a file for each topic.
func topics() [][]testcase {
	return [][]testcase{
		driverCases(), acquireCases, renewCases, releaseCases, breakCases, queueCases, keyCases,
		lossCases, retryCases, ambiguousCases, givingBackCases, shutdownCases, workCases, reentryCases,
		holdCases, minHoldCases, tokenCases, ttlCases, waitCases, lineCases, fairCases, outageCases, batchCases,
		operatorCases, configCases, eventCases, leakCases, raceCases, loadCases, processCases,
		fenceCases, inTxCases, transferCases, guardCases,
	}
}

func driverCases() []testcase { return slices.Clone(limitCases) }

// Run tests a driver, and the engine on it. After the cases that have to run alone it lets t run in parallel with other tests, so that the
// stores' cases, which mostly wait, wait together.
func Run(t *testing.T, f Factory) {
	can := f.can(t)
	var together []testcase
	for _, cases := range topics() {
		for _, c := range cases {
			switch {
			case c.needs&^can != 0 || f.Cases != nil && !f.Cases(c.name):
			case f.Bubble && c.needs&realTime == 0, c.needs&alone != 0:
				t.Run(c.name, func(t *testing.T) { f.run(t, c) })
			default:
				together = append(together, c)
			}
		}
	}
	if len(together) > 0 {
		t.Parallel()
	}
	for _, c := range together {
		t.Run(c.name, func(t *testing.T) { f.run(t, c) })
	}
}

func (f *Factory) run(t *testing.T, c testcase) {
	switch {
	case c.needs&alone != 0:
		c.run(newEnv(t, f, false))
	case f.Bubble && c.needs&realTime == 0:
		synctest.Test(t, func(t *testing.T) { c.run(newEnv(t, f, true)) })
	default:
		t.Parallel()
		if c.needs&(processes|heavy) != 0 {
			busy <- struct{}{}
			defer func() { <-busy }()
		}
		c.run(newEnv(t, f, false))
	}
}

// busy bounds how many cases work hard or start processes at once: together they would keep the others from the machine for as long as a lease lasts.
var busy = make(chan struct{}, 2)

// can finds out what the store can do.
func (f *Factory) can(t *testing.T) need {
	s := f.New(t)
	d := s.Driver(t)
	defer d.Close()
	limits, err := d.Limits()
	if err != nil {
		t.Fatal(err)
	}
	can := realTime | alone | heavy
	fencer, canFence := s.(Fencer)
	for bit, ok := range map[need]bool{
		processes:  s.URL() != "",
		stepsClock: is[ClockStepper](s),
		removesRow: is[RowRemover](s),
		countsLine: is[QueueCounter](s),
		blocks:     is[Blocker](s),
		queues:     limits.Queues,
		wakes:      is[dibsdriver.Waker](d),
		freeTTL:    limits.SessionTTL == 0,
		networked:  is[Networked](s),
		sessions:   is[SessionCounter](s),
		quick:      f.RoundTrip < 10*time.Millisecond,
		fences:     canFence,
		writers:    canFence && !fencer.Fences(t).OneWriter,
	} {
		if ok {
			can |= bit
		}
	}
	return can
}

func is[T any](v any) bool { _, ok := v.(T); return ok }
