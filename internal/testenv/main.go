package testenv

import "sync"

// Runner is what a *testing.M is to us.
type Runner interface{ Run() int }

// Main runs the tests and stops what they have started. It returns the status for os.Exit.
func Main(m Runner) int { return Wrap(m).Run() }

// Wrap is [Main] for those who hand m to somebody else, such as goleak: the servers are stopped before it looks for leaks.
func Wrap(m Runner) Runner { return wrapped{m} }

type wrapped struct{ m Runner }

func (w wrapped) Run() int {
	defer StopAll()
	return w.m.Run()
}

var running struct {
	sync.Mutex
	servers map[*Server]struct{}
}

func remember(s *Server) {
	running.Lock()
	defer running.Unlock()
	if running.servers == nil {
		running.servers = make(map[*Server]struct{})
	}
	running.servers[s] = struct{}{}
}

func forget(s *Server) {
	running.Lock()
	defer running.Unlock()
	delete(running.servers, s)
}

// StopAll ends the servers that this process has started, and removes their folders.
func StopAll() {
	running.Lock()
	servers := running.servers
	running.servers = nil
	running.Unlock()
	for s := range servers {
		s.remove()
	}
}
