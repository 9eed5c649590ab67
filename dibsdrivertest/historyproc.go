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
	takeover func() []Takeover

	// tools is held by whoever speaks to the store with its own tools, which cannot work while it is down.
	tools   sync.Mutex
	crashes int

	mu      sync.Mutex
	started int
	running map[int]*Taker
	busy    map[int]bool // something is being done to it
}

const (
	chaosProcesses = 8
	chaosWorkers   = 2
	enough         = 20
)

var historyKeys = []string{"a", "b", "c", "d", "e", "f"}

// historyOfProcesses is the random test on a store that processes can share.
func historyOfProcesses(t *testing.T, f Factory) {
	least, most := 14*time.Second, 2*time.Minute // it ends when it has seen enough
	if Long() {
		least, most = 5*time.Minute, 6*time.Minute
	}
	c := &chaos{T: t, h: newHistory(), store: f.New(t), seed: newSeed(t), running: make(map[int]*Taker), busy: make(map[int]bool)}
	c.takeover = func() []Takeover { return nil }
	if r, ok := c.store.(TakeoverRecorder); ok {
		c.takeover = r.RecordTakeovers(t)
	}
	c.resource = newResource(now, c.h.noteWrite).serve(t)
	for range chaosProcesses {
		c.start()
	}
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	var all sync.WaitGroup
	for i, do := range []func(context.Context, *rand.Rand){c.freezeSome, c.freezeSome, c.killSome, c.blockStore, c.watchStore, c.crashStore} {
		all.Go(func() { do(ctx, random(c.seed, 1000+i)) })
	}
	began := time.Now()
	for ctx.Err() == nil {
		time.Sleep(500 * time.Millisecond)
		if n := c.count(); time.Since(began) > least && n.takeovers >= enough && n.freezes >= enough && c.crashedEnough() {
			cancel()
		}
	}
	all.Wait()
	for _, p := range c.running {
		p.Kill()
	}
	n := c.count()
	t.Logf("%s in %s: %d crashes of the store, %s", f.Name, time.Since(began).Round(time.Second), c.crashes, n)
	if !c.crashedEnough() {
		t.Errorf("the store has crashed %d times, want %d: this run proves nothing", c.crashes, enoughCrashes)
	}
	if _, ok := c.store.(TakeoverRecorder); ok && (n.takeovers < enough || n.freezes < enough) {
		t.Errorf("%d takeovers and %d freezes, want %d each: this run proves nothing", n.takeovers, n.freezes, enough)
	}
	if n.refused == 0 {
		t.Error("the fence has refused nothing: this run proves nothing of it")
	}
	c.h.report(t)
}

func (c *chaos) count() tally {
	c.tools.Lock()
	record := c.takeover()
	c.tools.Unlock()
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	c.h.store = record
	return c.h.tally()
}

// start starts one more process.
func (c *chaos) start() {
	c.mu.Lock()
	c.started++
	i := c.started
	c.mu.Unlock()
	p := startTaker(c, c.store.URL(), func(r report) {
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

// victim picks a process that holds something, if there is one, and marks it as busy.
func (c *chaos) victim() (i int, p *Taker, s section) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.h.holder(func(i int) bool { return c.running[i] != nil && !c.busy[i] })
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

// freezeSome freezes holders for longer than their TTLs.
func (c *chaos) freezeSome(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		i, p, s := c.victim()
		if p == nil {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		from := now()
		p.Freeze()
		time.Sleep(s.TTL + time.Duration(rng.Int64N(int64(500*time.Millisecond))))
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
		i, p, _ := c.victim()
		if p == nil {
			continue
		}
		p.Kill()
		c.h.mu.Lock()
		c.h.died[i] = now()
		c.h.mu.Unlock()
		c.mu.Lock()
		delete(c.running, i)
		c.mu.Unlock()
		c.start()
	}
}

// blockStore makes the store slow for everybody now and then.
func (c *chaos) blockStore(ctx context.Context, rng *rand.Rand) {
	b, ok := c.store.(Blocker)
	for ok && ctx.Err() == nil {
		time.Sleep(time.Second + time.Duration(rng.Int64N(int64(time.Second))))
		c.tools.Lock()
		unblock := b.Block(c)
		time.Sleep(time.Duration(rng.Int64N(int64(500 * time.Millisecond))))
		unblock()
		c.tools.Unlock()
	}
}

// watchStore notes when the store hung, whoever made it hang: a process that is frozen in the middle of a write does too.
func (c *chaos) watchStore(ctx context.Context, _ *rand.Rand) {
	b, ok := c.store.(Blocker)
	for ok && ctx.Err() == nil {
		c.tools.Lock()
		from := now()
		b.Block(c)()
		to := now()
		c.tools.Unlock()
		if to.sub(from) > 50*time.Millisecond {
			c.h.mu.Lock()
			c.h.blocked = append(c.h.blocked, span{from, to})
			c.h.mu.Unlock()
		}
		time.Sleep(50 * time.Millisecond)
	}
}
