package dibsmysql

import (
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// wire stands between client and server, counts what the client says, and goes wrong on demand.
type wire struct {
	l net.Listener

	mu       sync.Mutex
	target   string // of new connections
	deaf     bool   // answers vanish
	deafAt   string // from the client's first packet on that contains this
	holdAt   string // such a packet is held until resume is closed
	held     chan struct{}
	resume   chan struct{}
	cutAfter int    // so many bytes of the client's later, everything is cut; -1: never
	cut      bool   // the rest, and new connections, too
	breakAt  string // from the client's first packet that contains this on, breakIn more bytes pass, there and then back; that ends its connection, and no other
	breakIn  int
	watch    string // the client's packets that contain this are counted
	seen     int
	commands int // that the client has sent
	conns    []net.Conn
	accepted int
	dead     int // the first so many connections are open still, and nothing comes through
}

func newWire(t testing.TB, target string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{target: target, l: l, cutAfter: -1, held: make(chan struct{}), resume: make(chan struct{})}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { w.connect(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		w.cutAll()
		all.Wait()
	})
	return w
}

func (w *wire) addr() string { return w.l.Addr().String() }

func (w *wire) connect(client net.Conn) {
	defer client.Close()
	w.mu.Lock()
	target := w.target
	w.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	w.mu.Lock()
	if w.cut {
		w.mu.Unlock()
		return
	}
	w.conns = append(w.conns, client, server)
	i := w.accepted
	w.accepted++
	w.mu.Unlock()
	var left atomic.Int64 // bytes of answers that still pass
	left.Store(math.MaxInt64)
	go func() {
		defer client.Close()
		defer server.Close()
		buf := make([]byte, 32<<10)
		for {
			n, err := server.Read(buf)
			w.mu.Lock()
			deaf := w.deaf || i < w.dead
			w.mu.Unlock()
			if n > 0 && !deaf {
				pass := min(int64(n), left.Load())
				left.Add(-pass) // before the client can answer
				if _, err := client.Write(buf[:pass]); err != nil || pass < int64(n) {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	for {
		if err := w.packet(holed{server, w, i}, client, &left); err != nil {
			return
		}
	}
}

// hole lets the connections that there are stay open, and nothing come through: a firewall has forgotten them.
func (w *wire) hole() { w.set(func(w *wire) { w.dead = w.accepted }) }

// holed is the way to the server of one connection.
type holed struct {
	io.Writer
	w *wire
	i int
}

func (h holed) Write(p []byte) (int, error) {
	h.w.mu.Lock()
	dead := h.i < h.w.dead
	h.w.mu.Unlock()
	if dead {
		return len(p), nil
	}
	return h.Writer.Write(p)
}

// packet passes one of the client's packets. Those with the number 0 begin a command.
func (w *wire) packet(server io.Writer, client io.Reader, left *atomic.Int64) error {
	head := make([]byte, 4)
	if _, err := io.ReadFull(client, head); err != nil {
		return err
	}
	p := append(head, make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)...)
	if _, err := io.ReadFull(client, p[4:]); err != nil {
		return err
	}
	w.mu.Lock()
	if w.holdAt != "" && strings.Contains(string(p), w.holdAt) {
		w.holdAt = ""
		close(w.held)
		w.mu.Unlock()
		<-w.resume
		w.mu.Lock()
	}
	if w.deafAt != "" && strings.Contains(string(p), w.deafAt) {
		w.deaf = true
	}
	if head[3] == 0 {
		w.commands++
	}
	if w.watch != "" && strings.Contains(string(p), w.watch) {
		w.seen++
	}
	broken := false
	if w.breakAt != "" && strings.Contains(string(p), w.breakAt) {
		w.breakAt = ""
		if broken = w.breakIn < len(p); broken {
			p = p[:w.breakIn]
		} else {
			left.Store(int64(w.breakIn - len(p)))
		}
	}
	cut := w.cutAfter >= 0 && len(p) > w.cutAfter
	if cut {
		p, w.cut = p[:w.cutAfter], true
	} else if w.cutAfter >= 0 {
		w.cutAfter -= len(p)
	}
	w.mu.Unlock()
	_, err := server.Write(p)
	if cut {
		w.cutAll()
		return io.EOF
	}
	if broken {
		return io.EOF
	}
	return err
}

func (w *wire) cutAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

// set changes what goes wrong.
func (w *wire) set(f func(w *wire)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w)
}

func (w *wire) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.commands
}

// through is a bed's driver behind the wire.
func (b *bed) through(t testing.TB, w *wire, params string) *Driver {
	t.Helper()
	return drive(t, opened(t, b.App.User+":"+b.App.Password+"@tcp("+w.addr()+")/"+b.database+"?"+params))
}
