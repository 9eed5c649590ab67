//go:build linux

package main_test

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// Nobody cleans up after a dead holder, and the next gets the key all the same.
func TestB26_WholeRunIsKilled(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bed) {
		r := b.ticker("tick", "--ttl", "2", "--note", "why")
		l := b.locks()
		if len(l) != 1 || l[0].Key != "k" || !strings.HasSuffix(l[0].Holder, " pid "+itoa(r.pid())) || l[0].Note != "why" ||
			l[0].Token == 0 || time.Since(l[0].Since) > time.Hour || l[0].ExpiresIn > 2 {
			t.Errorf("holder: %+v", l)
		}
		guard, command := b.children(r)
		for _, pid := range []int{r.pid(), guard, command} {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		b.inTurn(b.start("run", "k", "--", self, "stamp", b.path("next")))
	})
}

// While the command works on after TERM, its lease is renewed, and the next one waits.
func TestB24_KeyIsKeptUntilTheCommandHasEnded(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bed) {
		r := b.start("run", "--ttl", "3", "k", "--", "sh", "-c",
			`exec 2>&-; trap '"$0" stamp term; while [ ! -e go ]; do sleep 0.02; done; "$0" stamp ticks; exit 0' TERM; echo $$ >pid; while :; do sleep 0.02; done`, self)
		b.number("pid")
		next := b.next()
		before := b.locks()[0]
		r.signal(syscall.SIGTERM)
		b.content("term")
		stopped := time.Now()
		b.must("a TTL has passed", func() bool { return time.Since(stopped) > 4*time.Second })
		if now := b.locks(); len(now) != 1 || now[0].Token != before.Token || now[0].ExpiresIn <= 0 {
			t.Errorf("the lease was %v and is %v", before, now)
		}
		b.touch("go")
		r.want(0)
		b.inTurn(next)
	})
}
