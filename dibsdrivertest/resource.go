package dibsdrivertest

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// resource is what the locks protect: it remembers the highest fencing token of each key and refuses those below. It writes
// down itself what it was asked for, as a client may be killed before it can say so.
type resource struct {
	clock func() mono
	note  func(write)

	mu      sync.Mutex
	highest map[string]int64
}

func newResource(clock func() mono, note func(write)) *resource {
	return &resource{clock: clock, note: note, highest: make(map[string]int64)}
}

func (r *resource) accept(w *write) {
	w.Called = r.clock()
	r.mu.Lock()
	w.Accepted = w.Token >= r.highest[w.Key]
	r.highest[w.Key] = max(r.highest[w.Key], w.Token)
	r.mu.Unlock()
	w.Done = r.clock()
	r.note(*w)
}

// serve lets other processes write, over a socket, and returns its path.
func (r *resource) serve(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dibs") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { r.answer(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait() // the clients have ended by now
		os.RemoveAll(dir)
	})
	return path
}

func (r *resource) answer(c net.Conn) {
	defer c.Close()
	in, out := json.NewDecoder(c), json.NewEncoder(c)
	for {
		var w write
		if in.Decode(&w) != nil {
			return
		}
		r.accept(&w)
		if out.Encode(w) != nil {
			return
		}
	}
}

// resourceClient writes to the resource of another process.
type resourceClient struct {
	mu  sync.Mutex
	c   net.Conn
	in  *json.Decoder
	out *json.Encoder
}

func dialResource(path string) (*resourceClient, error) {
	c, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	return &resourceClient{c: c, in: json.NewDecoder(c), out: json.NewEncoder(c)}, nil
}

func (r *resourceClient) write(key string, token int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := write{Key: key, Token: token}
	return errors.Join(r.out.Encode(w), r.in.Decode(&w))
}
