//go:build linux

package main_test

import (
	"encoding/hex"
	"net"
	"regexp"
	"strconv"
	"sync"
	"testing"
)

// proxy is the wire between dibs and a server. It can stop, or be cut; and it sees who asks.
type proxy struct {
	addr, target string

	listener net.Listener
	mu       sync.Mutex
	away     bool // what comes is sent away
	conns    map[net.Conn]struct{}
	open     chan struct{}  // closed while bytes pass
	askers   map[int]*asker // by pid
	all      sync.WaitGroup
}

// asker is a process as the wire sees it.
type asker struct {
	asked   bool // it has tried to get a key
	answers int  // since then
	again   bool // it has sent something after it was told that another has the key, which takes two answers
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), target: target, conns: make(map[net.Conn]struct{}), askers: make(map[int]*asker), open: make(chan struct{})}
	close(p.open)
	p.listener = l
	p.all.Go(p.serve)
	t.Cleanup(func() {
		l.Close()
		p.cut()
		p.pass()
		p.all.Wait()
	})
	return p
}

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			reset(client)
			continue
		}
		p.mu.Lock()
		away := p.away
		if !away {
			p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		}
		p.mu.Unlock()
		if away {
			reset(client)
			server.Close()
			continue
		}
		a := new(asker) // until it says who it is
		p.all.Go(func() { p.copy(server, client, func(b []byte) { p.request(&a, b) }, func() {}) })
		p.all.Go(func() { p.copy(client, server, func([]byte) {}, func() { p.answered(&a) }) })
	}
}

func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

func (p *proxy) copy(to, from net.Conn, look func([]byte), passed func()) {
	defer to.Close()
	defer from.Close()
	var last []byte
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		last = append(last[max(0, len(last)-100):], buf[:n]...) // what looks for a name finds it also where a read has cut it
		look(last)
		p.mu.Lock()
		open := p.open
		p.mu.Unlock()
		<-open
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
		passed()
	}
}

var (
	// clientPID is what the client library says of itself when it connects: "_pid", a length, the pid.
	clientPID = regexp.MustCompile(`_pid[\x01-\x0a](\d+)`)
	// holderName is how dibs calls itself when it tries to get a key, "HOST pid PID", in the hexadecimal digits in which the driver writes it.
	holderName = regexp.MustCompile(hex.EncodeToString([]byte(" pid ")) + `(?:3[0-9])+'`)
)

func (p *proxy) request(of **asker, b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := clientPID.FindSubmatch(b); m != nil {
		pid, _ := strconv.Atoi(string(m[1]))
		if p.askers[pid] == nil {
			p.askers[pid] = new(asker)
		}
		*of = p.askers[pid]
	}
	a := *of
	a.again = a.again || a.answers >= 2
	a.asked = a.asked || holderName.Match(b)
}

func (p *proxy) answered(of **asker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := *of; a.asked {
		a.answers++
	}
}

// asked are the processes that have tried to get a key, and were told that another has it.
func (p *proxy) asked() (pids []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pid, a := range p.askers {
		if a.again {
			pids = append(pids, pid)
		}
	}
	return pids
}

// stall stops all bytes; connections stay open, and new ones are accepted and hear nothing.
func (p *proxy) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = make(chan struct{})
}

// pass lets bytes go on.
func (p *proxy) pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
	default:
		close(p.open)
	}
}

// cut ends all connections, and each new one at once. (It goes on to listen: another would take the port.)
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = true
	for c := range p.conns {
		reset(c)
	}
	clear(p.conns)
}

// mend ends cut.
func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = false
}
