package dibsmysql

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/dibs-go/dibs/internal/testenv"
	"github.com/go-sql-driver/mysql"
)

// TestDoctorServer: what can only be wrong with a server as a whole, on one for this alone.
func TestDoctorServer(t *testing.T) {
	t.Parallel()
	flags := map[string][]string{
		"mysql":   {"--plugin-load-add=group_replication.so", "--loose-group-replication-single-primary-mode=OFF"},
		"mariadb": nil,
	}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := k.alone(t, append(flags[k.name], "--innodb-rollback-on-timeout=ON", "--server-id=7", "--log-bin=b", "--binlog-format=STATEMENT", "--max-connections=20")...)
			b := newBed(t, s, true)
			b.admin.SetMaxIdleConns(1)
			d, admin := b.driver(t, ""), drive(t, b.admin)

			found := examined(t, d)
			onlyFaults(t, found)
			wantFinding(t, found, checkRollback, isWarning, "on:", "restart")
			wantFinding(t, found, checkBinaryLog, isWarning, "STATEMENT", "ROW or MIXED")
			wantFinding(t, found, checkDurability, isWarning, "is 2", "set innodb_flush_log_at_trx_commit to 1")
			if b.mysql {
				wantFinding(t, found, checkCluster, isWarning, "Group Replication in multi-primary mode", "connect all processes to one node")
				b.must(t, b.admin, "SET GLOBAL group_replication_single_primary_mode = ON")
				wantFinding(t, examined(t, d), checkCluster, isOK, "Group Replication with one primary")
			}

			b.must(t, b.admin, "SET GLOBAL innodb_flush_log_at_trx_commit = 1")
			wantFinding(t, examined(t, d), checkDurability, isOK, "before it is confirmed")

			follow := "CHANGE MASTER TO MASTER_HOST='elsewhere.invalid', MASTER_PASSWORD='secret'"
			if b.mysql {
				follow = "CHANGE REPLICATION SOURCE TO SOURCE_HOST='elsewhere.invalid', SOURCE_PASSWORD='secret'"
			}
			b.must(t, b.admin, follow)
			wantFinding(t, examined(t, admin), checkReplica, isWarning, "replica of elsewhere.invalid", "connect all processes to one server")
			wantFinding(t, examined(t, d), checkReplica, isWarning, "not told to this user")

			b.must(t, b.admin, "SET GLOBAL read_only = ON")
			found = examined(t, b.driver(t, ""))
			wantFinding(t, found, checkWrites, isFault, "takes no writes", "connect to the one that does")
			wantFinding(t, found, checkTables, isOK)
			onlyFaults(t, found, checkWrites)
			b.must(t, b.admin, "SET GLOBAL read_only = OFF")
			onlyFaults(t, examined(t, d))

			b.fewConnections(t)
		})
	}
}

// fewConnections uses the server's connections up, one by one.
func (b *bed) fewConnections(t *testing.T) {
	t.Helper()
	user := "w" + b.database[len(testenv.DatabasePrefix):]
	b.must(t, b.admin, "CREATE USER "+user+"@'%' IDENTIFIED BY 'secret'")
	b.must(t, b.admin, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+b.database+".* TO "+user+"@'%'")
	limited := func(n string) *Driver {
		b.must(t, b.admin, "ALTER USER "+user+"@'%' WITH MAX_USER_CONNECTIONS "+n)
		return drive(t, b.open(t, testenv.Account{User: user, Password: "secret"}, b.database, ""))
	}
	found := examined(t, limited("1"))
	wantFinding(t, found, checkConnections, isFault, "this user may have 1,", "MAX_USER_CONNECTIONS")
	wantFinding(t, found, checkConnections, isFault, "a second connection is refused", "needs two")
	onlyFaults(t, found, checkConnections)
	found = examined(t, limited("4"))
	wantFinding(t, found, checkConnections, isWarning, "this user may have 4", "enough for 2 processes")
	onlyFaults(t, found)
	wantFinding(t, examined(t, limited("8")), checkConnections, isOK, "this user may have 8")

	d := b.driver(t, "")
	onlyFaults(t, examined(t, d))
	var taken []*sql.Conn
	pool := b.pool(t, "")
	pool.SetMaxIdleConns(0) // what is given back is closed, so that the server has it again
	for {
		conn, err := pool.Conn(within(t))
		if e, full := errors.AsType[*mysql.MySQLError](err); full && e.Number == 1040 {
			break
		}
		if err != nil || len(taken) > 30 {
			t.Fatalf("after %d connections: %v", len(taken), err)
		}
		taken = append(taken, conn)
	}
	fresh := b.driver(t, "")
	found = examined(t, fresh)
	wantFinding(t, found, checkConnection, isFault, "no connection left")
	if len(found) != 1 {
		t.Error(listed(found))
	}
	// One is left: locks could be taken by it, and not renewed while it is in use.
	taken[0].Close()
	eventually(t, "a connection can be had again", func() bool { return fresh.db.PingContext(t.Context()) == nil })
	found = examined(t, fresh)
	wantFinding(t, found, checkConnections, isFault, "a second connection is refused", "raise max_connections")
	wantFinding(t, found, checkConnections, isWarning, "of the server's 20 are in use")
	onlyFaults(t, found, checkConnections)
	for _, conn := range taken[1:] {
		conn.Close()
	}
	eventually(t, "the connections are back", func() bool {
		found = fresh.Examine(within(t))
		return !strings.Contains(listed(found), "fault")
	})
	wantFinding(t, found, checkConnections, isOK, "of the server's 20 are in use")
}

// TestDoctorCluster: what a node of Galera says of itself. (None runs here; the variables are those that one has.)
func TestDoctorCluster(t *testing.T) {
	for _, c := range []struct {
		ready, status string
		level         string
		says          string
	}{
		{"ON", "PRIMARY", "warning", "connect all processes to one node"},
		{"OFF", "PRIMARY", "fault", "wsrep_ready is OFF"},
		{"ON", "NON-PRIMARY", "fault", "wsrep_cluster_status is NON-PRIMARY"},
	} {
		x := &examination{}
		x.clusterOf(map[string]string{"wsrep_on": "ON"}, map[string]string{"wsrep_ready": c.ready, "wsrep_cluster_status": c.status})
		if text := listed(x.Findings); len(x.Findings) != 1 || !strings.HasPrefix(text, c.level+" cluster") || !strings.Contains(text, c.says) {
			t.Errorf("%+v: %s", c, text)
		}
	}
}
