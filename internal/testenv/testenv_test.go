package testenv

import (
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// TestKillAndStart: the same data, the same port.
func TestKillAndStart(t *testing.T) {
	for _, c := range []struct {
		kind  string
		start func(testing.TB, ...string) *Server
	}{{"mysql", StartMySQL}, {"mariadb", StartMariaDB}} {
		t.Run(c.kind, func(t *testing.T) {
			began := time.Now()
			s := c.start(t)
			t.Logf("started in %s", time.Since(began).Round(time.Millisecond))
			if err := greeted(s.Addr); err != nil {
				t.Fatal(err)
			}
			s.Kill()
			if err := greeted(s.Addr); err == nil {
				t.Fatal("it was killed and greets")
			}
			began = time.Now()
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
			t.Logf("started again in %s", time.Since(began).Round(time.Millisecond))
			s.Freeze(t)
			if err := greeted(s.Addr); err == nil {
				t.Error("it is frozen and greets")
			}
			s.Thaw(t)
			if err := greeted(s.Addr); err != nil {
				t.Error(err)
			}
			s.Stop()
		})
	}
}
