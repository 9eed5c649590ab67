//go:build clusters

package dibsmysql

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/internal/testenv"
)

// failover is a primary, a replica that follows it, and an address that leads to the one and then to the other.
type failover struct {
	old, new *bed // the same database
	way      *wire
}

func newFailover(t testing.TB) *failover {
	t.Helper()
	primary, replica := testenv.StartReplication(t)
	f := &failover{old: newBed(t, primary, true), way: newWire(t, primary.Addr)}
	f.old.work(t)
	f.new = &bed{Server: replica, database: f.old.database}
	root := f.new.open(t, replica.Admin, "", "")
	host, port, err := net.SplitHostPort(primary.Addr)
	if err != nil {
		t.Fatal(err)
	}
	f.new.must(t, root, fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%s, MASTER_USER='%s', MASTER_PASSWORD='%s', MASTER_USE_GTID=slave_pos",
		host, port, primary.Admin.User, primary.Admin.Password))
	f.new.must(t, root, "START SLAVE")
	f.new.admin = f.new.open(t, replica.Admin, "", "") // the database is not there yet
	f.follow(t)
	f.new.admin = f.new.open(t, replica.Admin, f.new.database, "")
	return f
}

// follow waits until the replica has all that the primary has.
func (f *failover) follow(t testing.TB) {
	t.Helper()
	var position string
	if err := f.old.admin.QueryRow("SELECT @@gtid_binlog_pos").Scan(&position); err != nil {
		t.Fatal(err)
	}
	if f.new.number(t, "SELECT MASTER_GTID_WAIT(?, 30)", position) != 0 {
		t.Fatal("the replica does not follow")
	}
}

// lag lets the replica apply nothing from now on.
func (f *failover) lag(t testing.TB) {
	t.Helper()
	f.follow(t)
	f.new.must(t, f.new.admin, "STOP SLAVE SQL_THREAD")
}

// fail kills the primary. The address leads nowhere.
func (f *failover) fail() time.Time {
	f.old.Kill()
	return time.Now()
}

// promote makes the replica the primary as it is: what it has received and not applied is gone. The address leads there.
func (f *failover) promote(t testing.TB) time.Time {
	t.Helper()
	for _, statement := range []string{"STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = OFF"} {
		f.new.must(t, f.new.admin, statement)
	}
	f.way.set(func(w *wire) { w.target = f.new.Addr })
	f.way.cutAll()
	return time.Now()
}

// process is a client with a memory of its own.
func (f *failover) process(t testing.TB, ttl time.Duration) *dibs.Locker {
	t.Helper()
	return f.old.client(t, f.old.behind(t, f.way), ttl)
}

// hold acquires a key that is free, for the whole of the test.
func (f *failover) hold(t testing.TB, l *dibs.Locker, key string, opts ...dibs.Option) (*dibs.Lock, context.Context) {
	t.Helper()
	lock, ctx, err := l.Acquire(t.Context(), key, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Release() })
	return lock, ctx
}

// galera is one database on the nodes of a cluster.
func galera(t testing.TB) []*bed {
	t.Helper()
	servers := testenv.StartGalera(t, 2)
	nodes := make([]*bed, len(servers))
	for i, s := range servers {
		nodes[i] = &bed{Server: s}
		nodes[i].admin = nodes[i].open(t, s.Admin, "", "")
	}
	for _, n := range nodes {
		n.joined(t, len(nodes))
	}
	nodes[0] = newBed(t, servers[0], true)
	nodes[0].work(t)
	for _, n := range nodes[1:] {
		n.database = nodes[0].database
		n.admin = n.open(t, n.Admin, n.database, "wsrep_sync_wait=7") // reads wait for what the other node has written
	}
	return nodes
}

// joined waits until a node takes statements, and the cluster has so many.
func (b *bed) joined(t testing.TB, nodes int) {
	t.Helper()
	want := fmt.Sprintf("ON %d", nodes)
	var now string
	for limit := time.Now().Add(20 * time.Second); now != want; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("wsrep_ready and wsrep_cluster_size are %s, not %s", now, want)
		}
		now = b.status(t, "wsrep_ready") + " " + b.status(t, "wsrep_cluster_size")
	}
}

// status is a variable of the server's state.
func (b *bed) status(t testing.TB, name string) (value string) {
	t.Helper()
	if err := b.admin.QueryRow("SHOW GLOBAL STATUS LIKE '"+strings.ReplaceAll(name, "_", `\_`)+"'").Scan(&name, &value); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return value
}
