package dibsdrivertest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
	_ "time/tzdata" // so that TZ means something on every machine

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// taker is a helper process from the inside: it takes locks as it is told to, on a Locker of its own.
type taker struct {
	driver dibsdriver.Driver
	locker *dibs.Locker

	mu    sync.Mutex
	out   *json.Encoder
	locks map[string]*dibs.Lock
	slow  map[string]slowTx
}

// serveTaker runs until its input ends.
func serveTaker(url string, open Open) int {
	d, err := open(url)
	if err != nil {
		fmt.Fprintln(os.Stderr, "taker:", err)
		return 1
	}
	far, _ := time.ParseDuration(os.Getenv(takerFar))
	cfg := &dibs.Config{TTL: time.Second + far, Logger: slog.New(slog.DiscardHandler), Name: os.Getenv(takerName)}
	under := d
	if f, ok := d.(FencingDriver); ok {
		under = f.Fencing().Driver
	}
	locker, err := dibs.New(under, cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, "taker:", err)
		return 1
	}
	t := &taker{driver: d, locker: locker, out: json.NewEncoder(os.Stdout), locks: make(map[string]*dibs.Lock), slow: make(map[string]slowTx)}
	if far > 0 {
		_ = locker.Ping(background()) // its connection is not what is measured
	}
	t.say(report{What: "ready"})
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var o order
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			fmt.Fprintln(os.Stderr, "taker:", err)
			return 1
		}
		go t.do(o)
	}
	return 0
}

// say writes one line at once, so that it is known even if this process is killed right after it.
func (t *taker) say(r report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.At == 0 {
		r.At = now()
	}
	_ = t.out.Encode(r)
}

func (t *taker) do(o order) {
	r := report{ID: o.ID, What: "done", Key: o.Key}
	switch o.Do {
	case "acquire", "try":
		lock, err := t.acquire(o)
		r.Token, r.Error = lock.Token(), remote(err)
	case "release":
		r.Error = remote(t.lock(o.Key).Release())
	case "verify":
		r.Error = remote(t.lock(o.Key).Verify(context.Background()))
	case "err":
		r.Error = remote(t.lock(o.Key).Err())
	case "info":
		r.Text = time.Now().Location().String() + " " + time.Now().Format("-0700")
	case "work":
		t.work(o.Work)
	case "churn":
		r.Token = t.churn(o.Churn)
	case "begin":
		r.Error = remote(t.begin(o))
	case "commit":
		r.Error = remote(t.commit(o.Key))
	case "transfer":
		r.Error = remote(t.transfer(o.Fence))
	default:
		r.Error = &remoteError{Text: "unknown order " + o.Do}
	}
	t.say(r)
}

func (t *taker) acquire(o order) (*dibs.Lock, error) {
	var opts []dibs.Option
	if o.TTL != 0 {
		opts = append(opts, dibs.TTL(o.TTL))
	}
	if o.MaxHold != 0 {
		opts = append(opts, dibs.MaxHold(o.MaxHold))
	}
	if o.MinHold != 0 {
		opts = append(opts, dibs.MinHold(o.MinHold))
	}
	if o.MaxWait != 0 {
		opts = append(opts, dibs.MaxWait(o.MaxWait))
	}
	acquire := t.locker.Acquire
	if o.Do == "try" {
		acquire = t.locker.TryAcquire
	}
	lock, work, err := acquire(context.Background(), o.Key, opts...)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.locks[o.Key] = lock
	t.mu.Unlock()
	context.AfterFunc(work, func() {
		at := now()
		t.say(report{What: "ended", Key: o.Key, Token: lock.Token(), At: at, Error: remote(context.Cause(work))})
	})
	return lock, nil
}

func (t *taker) lock(key string) *dibs.Lock {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.locks[key]
}
