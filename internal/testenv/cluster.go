package testenv

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// StartReplication starts two MariaDB servers for this test alone: one that writes a binary log, and one that takes no writes and can follow it. They
// begin with the same data; when to follow (CHANGE MASTER), to lag and to be promoted is for the test to say. Both may be killed.
func StartReplication(t testing.TB) (primary, replica *Server) {
	t.Helper()
	logs := []string{"--log-bin=binlog", "--binlog-format=ROW", "--sync-binlog=0"}
	return StartMariaDB(t, append(logs, "--server-id=1")...), StartMariaDB(t, append(logs, "--server-id=2", "--read-only")...)
}

// StartGalera starts the nodes of a Galera cluster of MariaDB for this test alone. A node greets before it takes statements: wsrep_ready and wsrep_cluster_size say when all
// have joined. A node that was killed must not be started again: the first would begin a cluster of its own.
func StartGalera(t testing.TB, nodes int) []*Server {
	t.Helper()
	provider, err := findGalera()
	if err != nil {
		t.Fatal(err)
	}
	var servers []*Server
	var members []string
	for nth := range nodes {
		addr, err := freeAddr()
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, alone(t, mariadb, galeraFlags(provider, nth, addr, members), func(data string) error { return galeraState(data, nth) }))
		members = append(members, addr)
	}
	return servers
}

// galeraState says how much of the cluster's history a node's data have seen: to be joined by a node is an event of that history, so each node has all there was
// before it. It then needs to be sent nothing, for which Galera calls programs of other packages.
func galeraState(data string, nth int) error {
	const state = "# GALERA saved state\nversion: 2.1\nuuid:    d1b5d1b5-0000-11f1-8000-d1b5d1b5d1b5\nseqno:   %d\nsafe_to_bootstrap: 1\n"
	return os.WriteFile(filepath.Join(data, "grastate.dat"), fmt.Appendf(nil, state, nth), 0o600)
}

// galeraFlags: a node of a busy machine is not taken for dead because it is slow.
func galeraFlags(provider string, nth int, addr string, members []string) []string {
	_, port, _ := net.SplitHostPort(addr)
	options := []string{
		"gmcast.listen_addr=tcp://" + addr, "base_port=" + port, "gcache.size=16M",
		"evs.suspect_timeout=PT10S", "evs.inactive_timeout=PT30S", "evs.install_timeout=PT30S",
	}
	return []string{
		"--wsrep-on=ON", "--wsrep-provider=" + provider, "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2",
		"--wsrep-cluster-name=dibs", "--wsrep-cluster-address=gcomm://" + strings.Join(members, ","), "--wsrep-node-address=127.0.0.1",
		fmt.Sprint("--wsrep-node-name=node", nth+1), fmt.Sprint("--server-id=", nth+1), "--wsrep-provider-options=" + strings.Join(options, ";"),
	}
}

func findGalera() (string, error) {
	found, err := filepath.Glob("/usr/lib*/galera*/libgalera_smm.so")
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("the library of Galera is %w: run DIBS_TEST_LONG=1 scripts/test-deps (as root, on Debian; or apt-get install galera-4)", errNotThere)
	}
	return found[0], nil
}
