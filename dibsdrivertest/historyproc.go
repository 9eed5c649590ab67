package dibsdrivertest

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// workOrder starts the workers of a helper process.
type workOrder struct {
	Process  int
	Seed     int64
	Workers  int
	Keys     []string
	Resource string // the path of its socket
}

// work is a helper process' side.
func (t *taker) work(o *workOrder) {
	client, err := dialResource(o.Resource)
	if err != nil {
		t.say(report{What: "failed", Text: err.Error()})
		return
	}
	ids := new(atomic.Int64)
	ids.Store(int64(o.Process) * 1_000_000)
	var all sync.WaitGroup
	for i := range o.Workers {
		w := &worker{
			process: o.Process, keys: o.Keys, rng: random(o.Seed, i), locker: t.locker, now: now, ids: ids, beat: 20 * time.Millisecond,
			tell:  func(s section) { t.say(report{What: "section", Section: &s}) },
			write: client.write,
		}
		all.Go(func() { w.run(context.Background()) })
	}
	all.Wait()
}

// chaos runs helper processes and does to them what happens to processes.
type chaos struct {
	*testing.T
	h        *history
	store    Store
	seed     int64
	resource string

	// tools is held for reading by whoever speaks to the store with its own tools, which cannot work while it is down.
	tools    sync.RWMutex
	crashes  int
	blocking sync.Mutex // one at a time makes the store hang

	mu      sync.Mutex
	started int
	running map[int]*Taker
	wires   map[int]*Proxy // of those processes that do not reach the store directly
	busy    map[int]bool   // something is being done to it
	orphans []section      // that their processes died in, and the store has not given to another yet
	spoiled map[string]int // wires, by how
}

const (
	chaosProcesses = 8
	chaosWorkers   = 2
	enough         = 20
	enoughCutOff   = 4
)

var historyKeys = []string{"a", "b", "c", "d", "e", "f"}

// historyOfProcesses is the random test on a store that processes can share.
func historyOfProcesses(t *testing.T, f Factory) {
	least, most := 14*time.Second, 2*time.Minute // it ends when it has seen enough
	if Long() {
		least, most = 5*time.Minute, 6*time.Minute
	}
	c := &chaos{
		T: t, h: newHistory(), store: f.New(t), seed: newSeed(t),
		running: make(map[int]*Taker), wires: make(map[int]*Proxy), busy: make(map[int]bool), spoiled: make(map[string]int),
	}
	_, wired := c.store.(Networked)
	c.resource = newResource(now, c.h.noteWrite).serve(t)
	for range chaosProcesses {
		c.start()
	}
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	var all sync.WaitGroup
	for i, do := range []func(context.Context, *rand.Rand){
		c.freezeSome, c.freezeSome, c.killSome, c.spoilWires, c.blockStore, c.watchStore, c.crashStore,
	} {
		all.Go(func() { do(ctx, random(c.seed, 1000+i)) })
	}
	began := time.Now()
	for ctx.Err() == nil {
		time.Sleep(500 * time.Millisecond)
		n := c.count()
		if time.Since(began) > least && n.takeovers >= enough && n.freezes >= enough && (!wired || n.cutOff >= enoughCutOff) && c.crashedEnough() {
			cancel()
		}
	}
	all.Wait()
	for _, p := range c.running {
		p.Kill()
	}
	n := c.count()
	t.Logf("%s in %s: %d crashes of the store, wires spoiled: %v, %s", f.Name, time.Since(began).Round(time.Second), c.crashes, c.spoiled, n)
	if !c.crashedEnough() {
		t.Errorf("the store has crashed %d times, want %d: this run proves nothing", c.crashes, enoughCrashes)
	}
	if n.takeovers < enough || n.freezes < enough {
		t.Errorf("%d takeovers and %d freezes, want %d each: this run proves nothing", n.takeovers, n.freezes, enough)
	}
	if wired && n.cutOff < enoughCutOff {
		t.Errorf("%d locks ended while their holder was cut off from the store, want %d: this run proves nothing of it", n.cutOff, enoughCutOff)
	}
	if n.refused == 0 {
		t.Error("the fence has refused nothing: this run proves nothing of it")
	}
	c.h.report(t)
}

func (c *chaos) count() tally {
	c.countOrphans()
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	return c.h.tally()
}

// start starts one more process.
func (c *chaos) start() {
	c.mu.Lock()
	c.started++
	i := c.started
	c.mu.Unlock()
	url := c.store.URL()
	n, ok := c.store.(Networked)
	if ok && i%2 == 0 {
		wire := NewProxy(c, n.Addr())
		c.mu.Lock()
		c.wires[i] = wire
		c.mu.Unlock()
		url = n.Via(wire.Addr()).URL()
	}
	p := startTaker(c, url, func(r report) {
		switch r.What {
		case "section":
			c.h.note(*r.Section)
		case "failed":
			c.Errorf("process %d: %s", i, r.Text)
		}
	})
	p.order(order{Do: "work", Work: &workOrder{Process: i, Seed: c.seed + int64(i), Workers: chaosWorkers, Keys: historyKeys, Resource: c.resource}})
	c.mu.Lock()
	c.running[i] = p
	c.mu.Unlock()
}

func anyone(int) bool { return true }

// victim picks a process that holds something, if there is one among those that will do, and marks it as busy.
func (c *chaos) victim(do func(process int) bool) (i int, p *Taker, s section) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.h.holder(func(i int) bool { return c.running[i] != nil && !c.busy[i] && do(i) })
	if !ok {
		return 0, nil, s
	}
	c.busy[s.Process] = true
	return s.Process, c.running[s.Process], s
}

func (c *chaos) leave(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, i)
}

// freezeSome freezes holders for longer than their TTLs, and mostly until another has what they had.
func (c *chaos) freezeSome(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		i, p, s := c.victim(anyone)
		if p == nil {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		from := now()
		p.Freeze()
		had := c.stands(s)
		time.Sleep(s.TTL + time.Duration(rng.Int64N(int64(500*time.Millisecond))))
		for end := time.Now().Add(500 * time.Millisecond); had; time.Sleep(20 * time.Millisecond) {
			if c.passedOn(s) {
				c.h.notePassed(passed{key: s.Key, token: s.Token, frozen: true})
				break
			}
			if time.Now().After(end) {
				break
			}
		}
		p.Thaw()
		// It takes a moment until all of it runs again.
		c.h.noteSpan(c.h.frozen, i, span{from, now() + mono(200*time.Millisecond)})
		time.Sleep(time.Duration(rng.Int64N(int64(100 * time.Millisecond))))
		c.leave(i)
	}
}

// killSome kills a holder now and then, and starts another process.
func (c *chaos) killSome(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		time.Sleep(500*time.Millisecond + time.Duration(rng.Int64N(int64(700*time.Millisecond))))
		i, p, s := c.victim(anyone)
		if p == nil {
			continue
		}
		p.Kill()
		c.h.mu.Lock()
		c.h.died[i] = now()
		c.h.mu.Unlock()
		c.mu.Lock()
		delete(c.running, i)
		delete(c.wires, i)
		c.mu.Unlock()
		if s.MinHold == 0 && c.stands(s) { // one that was released into its min hold stands too
			c.mu.Lock()
			c.orphans = append(c.orphans, s)
			c.mu.Unlock()
		}
		c.start()
	}
}

// blockStore makes the store slow for everybody now and then.
func (c *chaos) blockStore(ctx context.Context, rng *rand.Rand) {
	b, ok := c.store.(Blocker)
	for ok && ctx.Err() == nil {
		time.Sleep(time.Second + time.Duration(rng.Int64N(int64(time.Second))))
		c.tools.RLock()
		c.blocking.Lock()
		unblock := b.Block(c)
		time.Sleep(time.Duration(rng.Int64N(int64(500 * time.Millisecond))))
		unblock()
		c.blocking.Unlock()
		c.tools.RUnlock()
	}
}

// watchStore notes when the store hung, whoever made it hang: a process that is frozen in the middle of a write does too.
func (c *chaos) watchStore(ctx context.Context, _ *rand.Rand) {
	b, ok := c.store.(Blocker)
	for ok && ctx.Err() == nil {
		c.tools.RLock()
		c.blocking.Lock()
		from := now()
		b.Block(c)()
		to := now()
		c.blocking.Unlock()
		c.tools.RUnlock()
		if to.sub(from) > 50*time.Millisecond {
			c.h.mu.Lock()
			c.h.blocked = append(c.h.blocked, span{from, to})
			c.h.mu.Unlock()
		}
		time.Sleep(50 * time.Millisecond)
	}
}
