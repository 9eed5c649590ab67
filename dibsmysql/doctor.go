package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

var _ dibsdriver.Doctor = (*Driver)(nil)

// The checks, in the order in which they are made, but for those that may come together.
const (
	checkConfig      = "configuration"
	checkConnection  = "connection"
	checkVersion     = "version"
	checkDatabase    = "database"
	checkAutocommit  = "autocommit"
	checkWrites      = "writes"
	checkReplica     = "replica"
	checkCluster     = "cluster"
	checkAddress     = "address"
	checkClock       = "clock"
	checkTimeZone    = "time zone"
	checkMode        = "SQL mode"
	checkIsolation   = "isolation"
	checkSnapshot    = "innodb_snapshot_isolation"
	checkIdle        = "wait_timeout"
	checkRollback    = "innodb_rollback_on_timeout"
	checkStatement   = "statement limits"
	checkDurability  = "durability"
	checkBinaryLog   = "binary log"
	checkConnections = "connections"
	checkTables      = "tables"
	checkRights      = "rights"
	checkRows        = "row locks"
)

// examineLimit bounds each question of an examination.
const examineLimit = 5 * time.Second

// examining is what a question is called in errors.
const examining = "examine"

// Examine implements [dibsdriver.Doctor]: it looks at the server, the settings of its sessions, the tables and the user's rights. It writes nothing, and uses one
// connection of the pool, for a moment two. The rights that the driver needs are enough; whether the server is a replica is told only to users with one more.
func (d *Driver) Examine(ctx context.Context) []dibsdriver.Finding {
	return d.examine(ctx, time.Now)
}

// examine takes this machine's clock as a parameter, for tests.
func (d *Driver) examine(ctx context.Context, now func() time.Time) []dibsdriver.Finding {
	x := &examination{d: d, now: now}
	if err := d.enter(ctx); err != nil {
		x.failed(checkConfig, err)
		return x.Findings
	}
	defer d.calls.Done()
	x.ask(ctx, []look{
		{checkConnection, x.connect},
		{checkReplica, x.replica},
		{checkCluster, x.cluster},
		{checkAddress, x.second},
		{checkClock, x.clock},
		{checkMode, x.settings},
		{checkConnections, x.connections},
	})
	if !x.bare {
		x.ask(ctx, []look{
			{checkTables, x.schema},
			{checkTables, x.tables},
			{checkTables, x.columns},
			{checkTables, x.indexes},
			{checkRights, x.rights},
			{checkRows, x.rows},
		})
	}
	return x.Findings
}

// look is one check, or some that need the same question.
type look struct {
	check string // for what goes wrong with the question itself
	at    func(ctx context.Context, conn *sql.Conn) error
}

// examination is one call of Examine.
type examination struct {
	dibsdriver.Findings
	d    *Driver
	now  func() time.Time
	over bool // nothing more can be asked

	server  *server
	mariaDB bool
	node    node
	which   string // the kind of cluster in which several servers take writes; or ""
	bare    bool   // the tables cannot be looked at: no database was named, or the node takes no statements
}

// failed makes a fault of an error for callers.
func (x *examination) failed(check string, err error) {
	found, advice := x.told(err)
	x.Fault(check, advice, "%s", found)
}

// ask makes these checks. When the server does not answer one it is the last of all.
func (x *examination) ask(ctx context.Context, looks []look) {
	for _, l := range looks {
		if x.over {
			return
		}
		x.askOne(ctx, l)
	}
}

func (x *examination) askOne(ctx context.Context, l look) {
	ctx, cancel := context.WithTimeout(ctx, examineLimit)
	defer cancel()
	before := len(x.Findings)
	err := x.d.send(ctx, request{doing: examining, take: x.d.take, reads: true}, func(conn *sql.Conn) error {
		x.Findings = x.Findings[:before] // what was found on a connection that then broke is found again
		return l.at(ctx, conn)
	})
	if err != nil {
		x.failed(l.check, err)
		x.over = l.check == checkConnection || code(err) == 0 && !errors.Is(err, dibsdriver.ErrRefused)
	}
}

// told takes an error for callers apart, into what happened and what to do about it.
func (x *examination) told(err error) (found, advice string) {
	names := []string{x.d.name(), "mysql", examining}
	if x.server != nil {
		names = append(names, x.server.name)
	}
	what, _ := x.d.explain(err)
	if found, advice = dibsdriver.Split(err, what, names...); advice == "" {
		advice = remedy(err)
	}
	return found, advice
}

// moreConnections is what to do where there are too few.
const moreConnections = "raise max_connections, or max_user_connections or the user's own limit (ALTER USER ... WITH MAX_USER_CONNECTIONS n), or close what else is connected"

// majority is what to do where a node of Galera takes no statements.
const majority = "look at the other nodes and at the network between them (SHOW STATUS LIKE 'wsrep%'), or connect to a node that has the majority"

// remedy is what to do about what a caller of the driver can only wait for, or has got wrong in the program.
func remedy(err error) string {
	switch n := code(err); {
	case n == 1040, n == 1203, n == 1226, n == 1129:
		return moreConnections
	case n == 1047:
		return "this is a node of a Galera cluster that has lost the others: " + majority
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "look whether the server hangs, whether the network to it drops what is sent, or whether all connections of the pool are in use"
	case errors.Is(err, dibsdriver.ErrRefused), errors.Is(err, dibsdriver.ErrClosed):
		return "mend it in the program that opens the store"
	}
	return "look at the server's log and at the network to it"
}
