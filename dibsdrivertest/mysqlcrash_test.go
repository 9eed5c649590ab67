package dibsdrivertest_test

import (
	"testing"

	"github.com/dibs-go/dibs/dibsdrivertest"
	"github.com/dibs-go/dibs/internal/testenv"
)

// These servers belong to one test each, and are killed in it.
var (
	crashingMySQL   = dibsdrivertest.Factory{Name: "mysql", New: newCrashing(testenv.StartMySQL)}
	crashingMariaDB = dibsdrivertest.Factory{Name: "mariadb", New: newCrashing(testenv.StartMariaDB)}
)

// crashFlags let a server lose nothing that it has acknowledged, whatever ends it: it does not answer before a commit is on the disk, and a page that was
// being written when it was killed is found whole elsewhere. (For the kill of a process the log need only have reached the system, but half
// a page may be written.)
var crashFlags = []string{"--innodb-flush-log-at-trx-commit=1", "--innodb-doublewrite=1"}

func newCrashing(start func(testing.TB, ...string) *testenv.Server) func(testing.TB) dibsdrivertest.Store {
	own := newMySQL(func(t testing.TB) *testenv.Server { return start(t, crashFlags...) })
	return func(t testing.TB) dibsdrivertest.Store { return crashing{own(t).(*mysqlDB)} }
}

type crashing struct{ *mysqlDB }

func (c crashing) Crash(t testing.TB) (restart func()) {
	c.server.Kill()
	return func() {
		if err := c.server.Start(); err != nil {
			t.Errorf("starting the server again: %v", err)
		}
	}
}

func TestCrash(t *testing.T) {
	for _, f := range []dibsdrivertest.Factory{crashingMySQL, crashingMariaDB} {
		t.Run(f.Name, func(t *testing.T) { dibsdrivertest.Crash(t, f) })
	}
}
