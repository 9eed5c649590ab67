package testenv

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is a server that runs for the tests.
type Server struct {
	// Kind is "mysql" or "mariadb".
	Kind string
	// Addr is host:port. It stays the same over Kill and Start.
	Addr string
	// Admin and App are accounts: Admin may do everything, App has SELECT, INSERT, UPDATE and DELETE on the tables of all databases whose
	// names begin with [DatabasePrefix], and no other right.
	Admin, App Account

	dir     string // "" if it is not ours
	command func() *exec.Cmd
	ready   func(addr string) error

	mu      sync.Mutex
	process *os.Process
	ended   chan struct{} // closed when the process has ended
}

// Account is a user of a server.
type Account struct{ User, Password string }

// DatabasePrefix begins the names of the databases on which [Server].App has rights.
const DatabasePrefix = "dibs_"

// startLimit is generous: several servers may start at once on a busy machine.
const startLimit = 90 * time.Second

// Own tells whether the server is ours to kill. One that the environment names is not.
func (s *Server) Own() bool { return s.dir != "" }

// Start starts the server, after Kill or Stop again on the same data and port, and waits until it answers.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		return nil
	}
	cmd := s.command()
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = endWithUs()

	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		// Linux ends the server when the thread that started it ends, so that one has to stay.
		runtime.LockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("starting %s: %w", s.Kind, err)
	}
	s.process, s.ended = cmd.Process, ended

	limit := time.Now().Add(startLimit)
	for {
		err := s.ready(s.Addr)
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			s.process = nil
			return fmt.Errorf("%s ended at once: %s", s.Kind, s.logTail())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%s is not ready after %s: %w: %s", s.Kind, startLimit, err, s.logTail())
		}
	}
}

// Kill ends the server at once, as a crash would.
func (s *Server) Kill() { s.end((*os.Process).Kill) }

// Stop asks the server to end in order, and waits until it has.
func (s *Server) Stop() { s.end(terminate) }

func (s *Server) end(by func(*os.Process) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return
	}
	_ = thaw(s.process)
	_ = by(s.process)
	select {
	case <-s.ended:
	case <-time.After(30 * time.Second):
		_ = s.process.Kill()
		<-s.ended
	}
	s.process = nil
}

// Freeze stops the server's process where it is; connections stay open.
func (s *Server) Freeze(t testing.TB) { s.signal(t, freeze) }

// Thaw lets a frozen server go on.
func (s *Server) Thaw(t testing.TB) { s.signal(t, thaw) }

func (s *Server) signal(t testing.TB, do func(*os.Process) error) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		t.Fatalf("%s does not run", s.Kind)
	}
	if err := do(s.process); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) remove() {
	s.Kill()
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// logTail is the end of what the server has said.
func (s *Server) logTail() string {
	b, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}

// freeAddr is an address that nobody listens on.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

var errNotThere = errors.New("not on this machine")
