//go:build linux

package main_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dibs-go/dibs/internal/testenv"
)

// closedAddr is an address that nobody listens on.
func closedAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// certificate writes a certificate for this machine, which is its own authority, and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "dibs test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, b []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", keyDER)
}

// onServersAlone gives each kind a server of its own, which may be killed. It speaks TLS with a certificate of its own.
func onServersAlone(t *testing.T, f func(t *testing.T, b *bed, ca string)) {
	start := map[string]func(testing.TB, ...string) *testenv.Server{"mysql": testenv.StartMySQL, "mariadb": testenv.StartMariaDB}
	for _, kind := range stores[1:] {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			cert, key := certificate(t)
			f(t, newServedBed(t, start[kind](t, "--ssl-cert="+cert, "--ssl-key="+key, "--ssl-ca="+cert)), cert)
		})
	}
}

// What can only be done to a server that no other test uses, one after the other.
func TestServer(t *testing.T) {
	t.Parallel()
	onServersAlone(t, func(t *testing.T, b *bed, ca string) {
		for _, step := range []struct {
			name string
			do   func(*bed, string)
		}{
			{"TLS", (*bed).tls},
			{"ReadOnly", (*bed).readOnly},
			{"B56_FrozenServer", (*bed).frozenServer},
			{"B56_ServerIsRestartedInTime", (*bed).restartedInTime},
			{"B56_ServerComesBackTooLate", (*bed).backTooLate},
		} {
			t.Run(step.name, func(t *testing.T) {
				b := *b
				b.t, b.dir = t, t.TempDir()
				step.do(&b, ca)
			})
		}
	})
}

// A certificate that nobody vouches for is refused, and the line says how to vouch for it.
func (b *bed) tls(ca string) {
	b.store = b.url(b.App, b.Addr, "?tls=true")
	b.unusable([]string{"run", "k", "--", "touch", "marker"}, "certificate is not trusted", "tls-ca=FILE", "nothing was run")
	b.unusable([]string{"init"}, "certificate is not trusted")
	other, _ := certificate(b.t)
	b.store = b.url(b.App, b.Addr, "?tls-ca="+other)
	b.unusable([]string{"ls"}, "certificate is not trusted", "tls-ca=FILE")
	// From here on the server itself sees to it that what is not encrypted does not get in.
	b.exec(b.admin, "ALTER USER "+b.App.User+"@'%' REQUIRE SSL")
	for _, params := range []string{"?tls-ca=" + ca, "?tls=true&tls-ca=" + ca, "?tls=skip-verify", "?tls=preferred"} {
		b.store = b.url(b.App, b.Addr, params)
		r := b.start("run", "-n", "k", "--", "true")
		r.want(0)
	}
	b.store = b.url(b.App, b.Addr, "")
	b.unusable([]string{"ls"}, "user and password")
	b.exec(b.admin, "ALTER USER "+b.App.User+"@'%' REQUIRE NONE")
}

func (b *bed) readOnly(string) {
	b.exec(b.admin, "SET GLOBAL read_only = 1")
	b.unusable([]string{"run", "k", "--", "touch", "marker"}, "takes no writes", "read_only", "nothing was run")
	b.unusable([]string{"break", "--yes", "k"}, "takes no writes")
	b.unusable([]string{"init"}, "takes no writes")
	b.exec(b.admin, "SET GLOBAL read_only = 0")
	b.start("run", "k", "--", "true").want(0)
}

// A server that accepts connections and says nothing more must not hold dibs up for ever.
func (b *bed) frozenServer(string) {
	r := b.ticker("tick!", "--ttl", "3")
	b.Freeze(b.t)
	begin := time.Now()
	waiting := b.start("run", "other", "--", "touch", "marker")
	list := b.start("ls")
	r.want(80, `"k"`, "lock lost", b.database)
	list.want(69, b.database)
	waiting.want(69, b.database, "nothing was run")
	if took := time.Since(begin); took > 15*time.Second { // five for the request, two for closing, and what a busy machine adds
		b.t.Errorf("it took %s to give up", took)
	}
	b.Thaw(b.t)
	b.inTurn(b.start("run", "k", "--", self, "stamp", b.path("next")))
	if b.exists("marker") {
		b.t.Error("a command was run without its lock")
	}
	b.connectionsEnd()
}

// A server that is away for less than a lease costs nobody anything: neither the command that runs, nor the one that waits.
func (b *bed) restartedInTime(string) {
	r := b.untilGo(5, "--ttl", "30", "--kill-after", "1")
	next := b.next()
	b.Kill()
	if err := b.Server.Start(); err != nil {
		b.t.Fatal(err)
	}
	before := b.locks()[0]
	// The lease is renewed through a new connection: it ends later than it would have.
	b.must("the lease is renewed", func() bool { l := b.locks(); return len(l) == 1 && l[0].ExpiresIn > before.ExpiresIn })
	if now := b.locks()[0]; now.Token != before.Token {
		b.t.Errorf("the lease was %v and is %v", before, now)
	}
	b.touch("go")
	r.want(5)
	next.want(0)
	b.connectionsEnd()
}

// A server that is away for longer costs the command its life before the lease ends by the server's clock; the next one outlives the outage.
func (b *bed) backTooLate(string) {
	r := b.ticker("tick!", "--ttl", "3")
	next := b.next()
	b.Kill()
	r.want(80, `"k"`, "lock lost", b.database)
	if err := b.Server.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.inTurn(next)
	b.connectionsEnd()
}

// The same with a network that resets what is there and what is new, as a firewall or a proxy that is restarted.
func TestB56_ConnectionsAreCut(t *testing.T) {
	onServers(t, func(t *testing.T, b *bed) {
		r := b.ticker("tick!", "--ttl", "3")
		next := b.next()
		b.wire.cut()
		r.want(80, `"k"`, "lock lost", b.database)
		b.wire.mend()
		b.inTurn(next)

		// For a moment only: a lease is renewed through new connections, and nobody notices.
		r = b.untilGo(5, "--ttl", "6")
		before := b.locks()[0]
		b.wire.cut()
		b.wire.mend()
		cut := time.Now()
		b.must("a TTL has passed", func() bool { return time.Since(cut) > 7*time.Second })
		if now := b.locks(); len(now) != 1 || now[0].Token != before.Token {
			t.Errorf("the lease was %v and is %v", before, now)
		}
		b.touch("go")
		r.want(5)
		b.connectionsEnd()
	})
}

// An address where nothing answers: neither yes nor no.
func TestBlackHole(t *testing.T) {
	onServers(t, func(t *testing.T, b *bed) {
		b.wire.stall()
		begin := time.Now()
		var rs []*running
		for _, args := range [][]string{{"run", "k", "--", "touch", "marker"}, {"run", "-w", "60", "--ttl", "5m", "k", "--", "touch", "marker"}, {"ls"}, {"init"}, {"break", "--yes", "k"}} {
			rs = append(rs, b.start(args...))
		}
		for _, r := range rs {
			b.refused(r, b.database)
		}
		if took := time.Since(begin); took > 30*time.Second { // 15 for dibs init, 5 for the others, 2 for closing, and what a busy machine adds
			t.Errorf("it took %s to give up", took)
		}
	})
}
