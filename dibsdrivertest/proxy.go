package dibsdrivertest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy stands on the wire between a client and a server (TCP) and makes it go wrong. Its methods may be called at any time and hold for
// present connections as for new ones.
type Proxy struct {
	target string
	addr   string
	port   *heldPort

	mu        sync.Mutex
	listener  net.Listener // nil while connections are refused
	up, down  wire         // to the server, from the server
	conns     map[net.Conn]struct{}
	made      int // connections so far
	forgotten int // so many of them lead nowhere
	closed    bool
	end       chan struct{} // closed with the proxy
	changed   chan struct{} // closed when up or down change
	all       sync.WaitGroup
}

// wire is what becomes of bytes that go one way.
type wire struct {
	delay time.Duration
	stall bool // they stop, and go on when the wire is mended
	hole  bool // they vanish
}

// NewProxy starts a proxy to target on a free port of this machine. It passes everything, and ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	port, err := holdPort()
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: target, addr: port.addr, port: port, conns: make(map[net.Conn]struct{}), changed: make(chan struct{}), end: make(chan struct{})}
	p.Accept()
	t.Cleanup(p.close)
	return p
}

// Addr is where clients connect.
func (p *Proxy) Addr() string { return p.addr }

// Pass mends everything. Stalled bytes go on; what fell into a hole is gone, what was cut stays cut, and what was forgotten stays forgotten.
func (p *Proxy) Pass() {
	p.set(wire{}, wire{})
	p.Accept()
}

// Delay holds up bytes on their way to the server, and on their way back.
func (p *Proxy) Delay(up, down time.Duration) { p.set(wire{delay: up}, wire{delay: down}) }

// Stall stops all bytes; connections stay open. Pass lets them go on.
func (p *Proxy) Stall() { p.set(wire{stall: true}, wire{stall: true}) }

// Hole swallows all bytes; connections stay open.
func (p *Proxy) Hole() { p.set(wire{hole: true}, wire{hole: true}) }

// HoleReplies passes requests and swallows their answers.
func (p *Proxy) HoleReplies() { p.set(wire{}, wire{hole: true}) }

// Cut ends all connections at once (with a reset, which is what a crash looks like) and refuses new ones.
func (p *Proxy) Cut() {
	p.Refuse()
	p.Reset()
}

// Reset ends all connections with a reset. New ones are welcome.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
}

// Forget makes present connections lead nowhere from now on, without anybody being told, as when a firewall forgets them. New ones are welcome.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgotten = p.made
}

// Refuse refuses new connections; present ones go on.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
}

// Accept ends Refuse.
func (p *Proxy) Accept() {
	p.mu.Lock()
	again := p.listener == nil && !p.closed
	p.mu.Unlock()
	if !again {
		return
	}
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		panic("dibsdrivertest: listening on the proxy's port: " + err.Error())
	}
	p.serve(l)
}

func (p *Proxy) set(up, down wire) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up, p.down = up, down
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) serve(l net.Listener) {
	p.mu.Lock()
	p.listener = l
	p.mu.Unlock()
	p.all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.all.Go(func() { p.connect(client) })
		}
	})
}

func (p *Proxy) connect(client net.Conn) {
	nth := p.own(client)
	if nth == 0 {
		return
	}
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		p.drop(client)
		return
	}
	if p.own(server) == 0 {
		p.drop(client)
		return
	}
	p.all.Go(func() { p.copy(server, client, &p.up, nth) })
	p.copy(client, server, &p.down, nth)
}

// own returns the number of the connection, 0 if it is closed because the proxy is.
func (p *Proxy) own(c net.Conn) (nth int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.Close()
		return 0
	}
	p.conns[c] = struct{}{}
	p.made++
	return p.made
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	c.Close()
}

// copy moves bytes one way until either end closes.
func (p *Proxy) copy(to, from net.Conn, way *wire, nth int) {
	defer p.drop(to)
	defer p.drop(from)
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && p.admit(way, nth) {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// admit returns when bytes may go on; false if they vanish.
func (p *Proxy) admit(way *wire, nth int) bool {
	for {
		p.mu.Lock()
		w, changed, closed := *way, p.changed, p.closed
		w.hole = w.hole || nth <= p.forgotten
		p.mu.Unlock()
		if w.stall && !closed {
			<-changed
			continue
		}
		if w.delay > 0 {
			late := time.NewTimer(w.delay)
			defer late.Stop()
			select {
			case <-late.C:
			case <-p.end:
			}
		}
		return !w.hole
	}
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	close(p.end)
	p.Refuse()
	p.Reset()
	p.set(wire{}, wire{})
	p.all.Wait()
	p.port.release()
}
