package dibsmysql

import (
	"io"
	"net"
	"strings"
	"sync"
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
	cutAfter int  // so many bytes of the client's later, everything is cut; -1: never
	cut      bool // the rest, and new connections, too
	commands int  // that the client has sent
	conns    []net.Conn
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
	w.mu.Unlock()
	go func() {
		defer client.Close()
		defer server.Close()
		buf := make([]byte, 32<<10)
		for {
			n, err := server.Read(buf)
			w.mu.Lock()
			deaf := w.deaf
			w.mu.Unlock()
			if n > 0 && !deaf {
				if _, err := client.Write(buf[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	for {
		if err := w.packet(server, client); err != nil {
			return
		}
	}
}

// packet passes one of the client's packets. Those with the number 0 begin a command.
func (w *wire) packet(server io.Writer, client io.Reader) error {
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
