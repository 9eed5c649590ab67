package dibsdrivertest

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// Taker is a helper process that takes locks, and can be killed and frozen: a copy of the test binary (see Main).
type Taker struct {
	t    testing.TB
	cmd  *exec.Cmd
	in   io.WriteCloser
	done chan struct{} // closed when its output has ended

	mu      sync.Mutex
	orders  int
	answers map[int]chan report
	ended   map[string]chan report // by key: when the work's context ended
	listen  func(report)           // is given everything
}

const (
	takerName = "DIBS_TEST_TAKER_NAME"
	takerFar  = "DIBS_TEST_TAKER_FAR" // how much longer everything takes, as the store is far away
)

// StartTaker starts one on a store; env is added to its environment. It ends with the test.
func StartTaker(t testing.TB, url string, env ...string) *Taker {
	t.Helper()
	return startTaker(t, url, nil, env...)
}

func startTaker(t testing.TB, url string, listen func(report), env ...string) *Taker {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &Taker{
		t: t, cmd: exec.Command(self), done: make(chan struct{}), listen: listen,
		answers: make(map[int]chan report), ended: make(map[string]chan report),
	}
	p.cmd.Env = append(append(os.Environ(), takerURL+"="+url), env...)
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := p.answer(0)
	go p.read(out)
	t.Cleanup(p.Kill)
	select {
	case <-ready:
	case <-p.done:
		t.Fatal("the helper process did not start; does TestMain call dibsdrivertest.Main?")
	case <-time.After(30 * time.Second):
		t.Fatal("the helper process does not say that it is ready")
	}
	return p
}

func (p *Taker) read(out io.Reader) {
	defer close(p.done)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			continue // the last line of a process that was killed
		}
		if p.listen != nil {
			p.listen(r)
		}
		p.mu.Lock()
		if c := p.answers[r.ID]; c != nil && (r.What == "done" || r.What == "ready") {
			c <- r
			delete(p.answers, r.ID)
		}
		c := p.ended[r.Key]
		p.mu.Unlock()
		if r.What == "ended" && c != nil {
			select {
			case c <- r:
			default:
			}
		}
	}
}

func (p *Taker) answer(id int) chan report {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := make(chan report, 1)
	p.answers[id] = c
	return c
}

// order sends an order; its answer comes when it comes.
func (p *Taker) order(o order) <-chan report {
	p.mu.Lock()
	p.orders++
	o.ID = p.orders
	if o.Do == "acquire" || o.Do == "try" {
		p.ended[o.Key] = make(chan report, 1)
	}
	p.mu.Unlock()
	c := p.answer(o.ID)
	line, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	_, _ = p.in.Write(append(line, '\n')) // a dead process does not answer
	return c
}

// ask sends an order and waits for the answer.
func (p *Taker) ask(o order) report {
	p.t.Helper()
	return p.wait(p.order(o), o.Do)
}

func (p *Taker) wait(c <-chan report, what string) report {
	p.t.Helper()
	select {
	case r := <-c:
		return r
	case <-p.done:
		p.t.Fatalf("%s: the helper process has ended", what)
	case <-time.After(60 * time.Second):
		p.t.Fatalf("%s: the helper process does not answer", what)
	}
	panic("unreachable")
}

// Acquire takes a key and returns its token.
func (p *Taker) Acquire(key string, ttl time.Duration) int64 {
	p.t.Helper()
	r := p.ask(order{Do: "acquire", Key: key, TTL: ttl, MaxWait: 30 * time.Second})
	if r.Error != nil {
		p.t.Fatalf("acquire: %v", r.Error)
	}
	return r.Token
}

// Try makes one attempt.
func (p *Taker) Try(key string) error { return p.ask(order{Do: "try", Key: key}).Error.err() }

// Release releases a key.
func (p *Taker) Release(key string) error { return p.ask(order{Do: "release", Key: key}).Error.err() }

// Verify asks the store for a key.
func (p *Taker) Verify(key string) error { return p.ask(order{Do: "verify", Key: key}).Error.err() }

// Err asks the lock alone.
func (p *Taker) Err(key string) error { return p.ask(order{Do: "err", Key: key}).Error.err() }

// Ended tells when the context of the work under a key ended, and why.
func (p *Taker) Ended(key string) <-chan report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended[key]
}

// Freeze stops the process (SIGSTOP), Thaw lets it go on.
func (p *Taker) Freeze() {
	if err := freeze(p.cmd.Process); err != nil {
		p.t.Errorf("freezing a process: %v", err)
	}
}

// Thaw lets a frozen process go on.
func (p *Taker) Thaw() {
	if err := thaw(p.cmd.Process); err != nil {
		p.t.Errorf("thawing a process: %v", err)
	}
}

// Kill ends the process as a crash would (SIGKILL), frozen or not, and waits for its end.
func (p *Taker) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
	_ = p.cmd.Wait()
}
