package dibsmysql

import (
	"context"
	"database/sql"
	"strings"
	"time"
)

// connect finds out what the server is, and what keeps it from being used at all.
func (x *examination) connect(ctx context.Context, conn *sql.Conn) error {
	began := time.Now()
	s, version, problems, err := x.d.lookAtServer(ctx, conn)
	if err != nil {
		return err
	}
	took := time.Since(began)
	var user string
	if err := conn.QueryRowContext(ctx, "SELECT CURRENT_USER()").Scan(&user); err != nil {
		return err
	}
	x.server, x.mariaDB, x.bare = s, strings.Contains(version, "MariaDB"), s.database == ""
	x.OK(checkConnection, "%s answers user %s within %s", s.name, user, max(took.Round(100*time.Microsecond), 100*time.Microsecond))
	x.versionOf(version)
	wrong := make(map[string]bool)
	for _, p := range problems {
		x.failed(p.check, p.err)
		wrong[p.check] = true
	}
	if !wrong[checkDatabase] {
		x.OK(checkDatabase, "%s", s.database)
	}
	if !wrong[checkAutocommit] {
		x.OK(checkAutocommit, "on: each lock can be seen by others at once")
	}
	if !wrong[checkWrites] {
		return x.sessionWrites(ctx, conn)
	}
	return nil
}

func (x *examination) versionOf(version string) {
	if !strings.Contains(strings.ToLower(version), "maria") {
		version = "MySQL " + version
	}
	if x.server.skipLocked {
		x.OK(checkVersion, "%s", version)
		return
	}
	x.Warn(checkVersion, "update it to MySQL 8.0.1, MariaDB 10.6 or later", "%s, which has no SKIP LOCKED that can be used: leases are renewed one by one, and there are no row locks", version)
}

// sessionWrites: a server that takes writes may be asked for sessions that make none.
func (x *examination) sessionWrites(ctx context.Context, conn *sql.Conn) error {
	found, err := variables(ctx, conn, "SESSION VARIABLES", "transaction_read_only", "tx_read_only")
	if err != nil {
		return err
	}
	for name, value := range found {
		if value == "ON" {
			x.Fault(checkWrites, "take "+name+"=1 out of the DSN, or set it off on the server", "%s is on: transactions of this session may not write, so no lock can be taken", name)
			return nil
		}
	}
	x.OK(checkWrites, "the server takes them")
	return nil
}

// replica needs a right that the driver does not.
func (x *examination) replica(ctx context.Context, conn *sql.Conn) error {
	statement, right := "SHOW REPLICA STATUS", "REPLICATION CLIENT"
	if x.mariaDB {
		statement, right = "SHOW ALL SLAVES STATUS", "SLAVE MONITOR"
	}
	var sources []string
	err := eachRow(ctx, conn, statement, func(rows *sql.Rows) error {
		row, err := byColumn(rows)
		if err != nil || strings.HasPrefix(row["channel_name"], "group_replication_") {
			return err
		}
		sources = append(sources, row["source_host"]+row["master_host"])
		return nil
	})
	switch n := code(err); {
	case n == 1227, n == 1064: // no right; MySQL before 8.0.22
		x.Warn(checkReplica, "find out from whom runs the server, or let a user with "+right+" run this", "whether this server is a replica of another is not told to this user")
		return nil
	case err != nil:
		return err
	case len(sources) > 0:
		x.Warn(checkReplica, "connect all processes to one server, the one at the head of the replication",
			"this server is a replica of %s: a lock that is taken there comes here late, and one that is taken here does not go there", strings.Join(sources, " and "))
		return nil
	}
	x.OK(checkReplica, "this server is no replica")
	return nil
}

// byColumn is a row of a statement whose columns differ from version to version.
func byColumn(rows *sql.Rows) (map[string]string, error) {
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	values, into := make([]sql.NullString, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	row := make(map[string]string)
	err = rows.Scan(into...)
	for i, name := range names {
		row[strings.ToLower(name)] = values[i].String
	}
	return row, err
}

func (x *examination) cluster(ctx context.Context, conn *sql.Conn) error {
	found, err := readVariables(ctx, conn)
	if err != nil {
		return err
	}
	state, err := variables(ctx, conn, "GLOBAL STATUS", "wsrep_ready", "wsrep_cluster_status", "wsrep_cluster_size")
	if err != nil {
		return err
	}
	x.clusterOf(found, state)
	return nil
}

// clusterOf says what the variables and the state of a server mean.
func (x *examination) clusterOf(variables, state map[string]string) {
	x.which = multiPrimary(variables)
	_, group := variables["group_replication_single_primary_mode"]
	switch {
	case strings.Contains(x.which, "Galera") && (state["wsrep_ready"] != "ON" || state["wsrep_cluster_status"] != "PRIMARY"):
		x.bare = true
		x.Fault(checkCluster, majority, "this node of a Galera cluster is not part of its majority (wsrep_ready is %s, wsrep_cluster_status is %s), and takes no statements", state["wsrep_ready"], state["wsrep_cluster_status"])
	case x.which != "":
		x.Warn(checkCluster, "connect all processes to one node; a proxy in between should use one node for writes, and the others only when that one is down",
			"this is a node of %s: leases hold on all nodes, but those who wait at another node than the holder's look now and then and are not woken, writes of one key at two nodes "+
				"end as deadlocks that are retried, and row locks hold only among those at one node", x.which)
	case group:
		x.OK(checkCluster, "Group Replication with one primary: a lock that was acknowledged may be lost when the primary fails before the others have it, unless group_replication_consistency waits for them")
	default:
		x.OK(checkCluster, "a server by itself, no node of Galera or Group Replication")
	}
}

// second looks whether another connection leads to the same server, and whether there can be one.
func (x *examination) second(ctx context.Context, conn *sql.Conn) error {
	one, err := nodeOf(ctx, conn)
	if err != nil {
		return err
	}
	x.node = one
	if x.d.full() {
		x.OK(checkAddress, "it leads to %s; all connections of the pool are in use, so a second one was not tried", one)
		return nil
	}
	other, err := x.d.db.Conn(ctx)
	switch code(err) {
	case 1040, 1203, 1226:
		x.Fault(checkConnections, moreConnections, "a second connection is refused (%s), and each process that holds or awaits a lock needs two", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer other.Close()
	two, err := nodeOf(ctx, other)
	switch {
	case err != nil:
		return err
	case one == two:
		x.OK(checkAddress, "it leads to %s", one)
	case x.which != "":
		x.Warn(checkAddress, "let the address lead to one node at a time", "it leads to several nodes, one time to %s, and one time to %s", one, two)
	default:
		x.Fault(checkAddress, "connect to the server that takes the writes by an address that leads to it alone",
			"it leads to different servers, one time to %s, and one time to %s: a lock that is taken on one is not there on the other", one, two)
	}
	return nil
}

func nodeOf(ctx context.Context, conn *sql.Conn) (n node, err error) {
	err = conn.QueryRowContext(ctx, "SELECT @@hostname, @@port, @@server_id").Scan(&n.host, &n.port, &n.id)
	return n, err
}

const (
	// clockNotice is what clocks that are kept by NTP do not differ by.
	clockNotice = time.Second
	// clockWrong: one of the two is plainly wrong, and will be set right some day.
	clockWrong = 5 * time.Minute
)

func (x *examination) clock(ctx context.Context, conn *sql.Conn) error {
	var micros int64
	before := x.now()
	if err := conn.QueryRowContext(ctx, "SELECT "+nowUSSQL).Scan(&micros); err != nil {
		return err
	}
	after := x.now()
	at := time.UnixMicro(micros)
	by, how := time.Duration(0), "ahead of"
	switch {
	case at.After(after):
		by = at.Sub(after)
	case at.Before(before.Truncate(time.Microsecond)):
		by, how = before.Sub(at), "behind"
	}
	const advice = "let both machines keep their time by NTP, and correct the wrong one slowly, not in a step; a timestamp= in the DSN stops the clock of its sessions: take it out"
	switch {
	case by >= clockWrong:
		x.Fault(checkClock, advice, "the server's clock is %s %s this machine's: when it is the wrong one, and is set right, leases end early under their holders, or keys stay taken, by as much",
			by.Round(time.Second), how)
	case by >= clockNotice:
		x.Warn(checkClock, advice, "the server's clock is %s %s this machine's: leases go by the server's alone and do not suffer, but it should not be set right in a step",
			by.Round(100*time.Millisecond), how)
	default:
		x.OK(checkClock, "the server's and this machine's agree within %s", (by+after.Sub(before)).Round(100*time.Microsecond)+100*time.Microsecond)
	}
	return nil
}

// variables reads what is there of these, by names in lower case; values are in upper case.
func variables(ctx context.Context, conn *sql.Conn, kind string, names ...string) (map[string]string, error) {
	found := make(map[string]string)
	err := eachRow(ctx, conn, "SHOW "+kind+" WHERE Variable_name IN ('"+strings.Join(names, "', '")+"')", func(rows *sql.Rows) error {
		var name, value string
		err := rows.Scan(&name, &value)
		found[strings.ToLower(name)] = strings.ToUpper(value)
		return err
	})
	return found, err
}
