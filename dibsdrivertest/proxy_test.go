package dibsdrivertest_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdrivertest"
)

// echo is a server that answers each line with itself, and counts them.
func echo(t *testing.T) (addr string, lines <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	got := make(chan string, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					got <- line
					io.WriteString(c, line)
				}
			}()
		}
	}()
	return l.Addr().String(), got
}

type client struct {
	*testing.T
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &client{t, c, bufio.NewReader(c)}
}

func (c *client) send(line string) {
	c.Helper()
	if _, err := io.WriteString(c.Conn, line+"\n"); err != nil {
		c.Fatal(err)
	}
}

// receive returns what came, or the error.
func (c *client) receive(within time.Duration) (string, error) {
	c.SetReadDeadline(time.Now().Add(within))
	return c.r.ReadString('\n')
}

func (c *client) want(line string) {
	c.Helper()
	if got, err := c.receive(5 * time.Second); got != line+"\n" {
		c.Fatalf("want %q, got %q, %v", line, got, err)
	}
}

// silent requires that nothing comes for a while, and that the connection is open.
func (c *client) silent() {
	c.Helper()
	if got, err := c.receive(50 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.Fatalf("want silence, got %q, %v", got, err)
	}
}

func TestProxy(t *testing.T) {
	addr, lines := echo(t)
	p := dibsdrivertest.NewProxy(t, addr)

	c := dial(t, p.Addr())
	c.send("pass")
	c.want("pass")
	<-lines

	p.Delay(30*time.Millisecond, 40*time.Millisecond)
	began := time.Now()
	c.send("delay")
	c.want("delay")
	if d := time.Since(began); d < 70*time.Millisecond {
		t.Errorf("a delay of 70 ms took %s", d)
	}
	<-lines

	p.Stall()
	c.send("stall")
	c.silent()
	if len(lines) != 0 {
		t.Error("a stalled request arrived")
	}
	p.Pass()
	c.want("stall")
	<-lines

	p.HoleReplies()
	c.send("reply lost")
	if got := <-lines; got != "reply lost\n" {
		t.Errorf("got %q", got)
	}
	c.silent()

	p.Hole()
	c.send("request lost")
	c.silent()
	if len(lines) != 0 {
		t.Error("a lost request arrived")
	}

	p.Pass()
	c.silent() // what fell into the hole is gone
	c.send("mended")
	c.want("mended")

	p.Refuse()
	if c, err := net.Dial("tcp", p.Addr()); err == nil {
		c.Close()
		t.Error("a connection was not refused")
	}
	c.send("still here")
	c.want("still here")

	p.Cut()
	if got, err := c.receive(5 * time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection was not cut: %q, %v", got, err)
	}
	p.Pass()
	c = dial(t, p.Addr())
	c.send("again")
	c.want("again")
}

// TestProxyForgets: what is forgotten is so for good; new connections work.
func TestProxyForgets(t *testing.T) {
	addr, lines := echo(t)
	p := dibsdrivertest.NewProxy(t, addr)
	old := dial(t, p.Addr())
	old.send("known")
	old.want("known")
	<-lines
	p.Forget()
	p.Pass()
	old.send("forgotten")
	old.silent()
	c := dial(t, p.Addr())
	c.send("new")
	c.want("new")
	if got := <-lines; got != "new\n" {
		t.Errorf("got %q", got)
	}
}

// TestProxyKeepsItsPort: however many connections this machine makes while the proxy refuses them.
func TestProxyKeepsItsPort(t *testing.T) {
	addr, _ := echo(t)
	p := dibsdrivertest.NewProxy(t, addr)
	for range 3 {
		p.Cut()
		for range 200 {
			dial(t, addr)
		}
		if c, err := net.Dial("tcp", p.Addr()); err == nil {
			c.Close()
			t.Fatal("a connection was not refused")
		}
		p.Pass()
		c := dial(t, p.Addr())
		c.send("again")
		c.want("again")
	}
}
