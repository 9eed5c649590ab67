package dibsmysql

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
)

// settingNames are the variables whose values matter. Not every server has all of them.
var settingNames = []string{
	"time_zone", "system_time_zone", "sql_mode", "transaction_isolation", "tx_isolation", "innodb_snapshot_isolation", "wait_timeout",
	"idle_transaction_timeout", "innodb_rollback_on_timeout", "innodb_lock_wait_timeout", "max_statement_time", "max_execution_time", "sql_select_limit",
	"innodb_flush_log_at_trx_commit",
}

const (
	// idleEnough is how long a session may be silent at the least, in seconds.
	idleEnough = 60
	// statementEnough is longer than any statement of the driver takes, in seconds: those that wait do so in slices of five.
	statementEnough = 10
	// selectEnough is more rows than any SELECT of the driver is meant to have.
	selectEnough = 1_000_000
)

// settings looks at what the sessions of the pool are set to, by the server or by the DSN.
func (x *examination) settings(ctx context.Context, conn *sql.Conn) error {
	v, err := variables(ctx, conn, "SESSION VARIABLES", settingNames...)
	if err != nil {
		return err
	}
	zone := v["time_zone"]
	if zone == "SYSTEM" {
		zone += " (" + v["system_time_zone"] + ")"
	}
	x.OK(checkTimeZone, "%s; all times of dibs are UTC, so it makes no difference", zone)
	x.OK(checkMode, "%s; every mode will do", either(v["sql_mode"], "none"))
	x.isolation(v)
	x.idle(v)
	x.rollback(v)
	x.limits(v)
	x.durability(v)
	return x.binaryLog(ctx, conn)
}

// isolation: leases need none, but a fence that somebody sets into a transaction of his own has to see a lease that was renewed meanwhile.
func (x *examination) isolation(v map[string]string) {
	level := either(v["transaction_isolation"], v["tx_isolation"])
	x.OK(checkIsolation, "%s; leases are taken at any level, and InTx and row locks set READ-COMMITTED themselves", level)
	switch snapshots, known := v["innodb_snapshot_isolation"]; {
	case !known:
		x.OK(checkSnapshot, "this server does not have it")
	case on(snapshots) && level != "READ-COMMITTED" && level != "READ-UNCOMMITTED":
		x.Warn(checkSnapshot, "use InTx, or begin transactions with Fence at READ COMMITTED",
			"on, and the isolation is %s: a transaction of your own that Fence is called in is refused there, since the lease may have been renewed after the transaction's snapshot", level)
	default:
		x.OK(checkSnapshot, "%s", strings.ToLower(snapshots))
	}
}

func (x *examination) idle(v map[string]string) {
	wait, transaction := seconds(v["wait_timeout"]), seconds(v["idle_transaction_timeout"])
	if wait < idleEnough {
		x.Warn(checkIdle, "raise it to a minute or more, on the server or by wait_timeout= in the DSN",
			"%g s: a transaction with a fence or a row lock whose work says nothing to the server for so long is ended, and idle connections of the pool are dialled anew", wait)
	} else {
		x.OK(checkIdle, "%g s: so long a frozen process keeps a key whose fenced transaction is open (Fence alone; InTx needs one TTL at most)", wait)
	}
	if transaction > 0 && transaction < idleEnough {
		x.Warn(checkIdle, "raise it to a minute or more, or set it to 0, on the server or in the DSN",
			"idle_transaction_timeout is %g s: a transaction with a fence or a row lock whose work says nothing to the server for so long is ended", transaction)
	}
}

func (x *examination) rollback(v map[string]string) {
	if on(v["innodb_rollback_on_timeout"]) {
		x.Warn(checkRollback, "let the work return the errors of its statements; or take the setting out, and restart the server",
			"on: when a statement has waited for a row for too long (error 1205), the whole transaction is rolled back. InTx and row locks notice and refuse to commit, "+
				"but what a work that goes on after such an error does next may be committed by itself")
		return
	}
	x.OK(checkRollback, "off: error 1205 (after %s s, innodb_lock_wait_timeout) undoes its statement alone", v["innodb_lock_wait_timeout"])
}

// limits ends or shortens what the driver asks.
func (x *examination) limits(v map[string]string) {
	before := len(x.Findings)
	if s := seconds(v["max_statement_time"]); s > 0 && s < statementEnough {
		x.Warn(checkStatement, "raise it, or set it to 0 for this user or in the DSN",
			"max_statement_time is %g s: those who wait for a key are ended by it, and then look now and then instead", s)
	}
	if ms := seconds(v["max_execution_time"]); ms > 0 && ms < statementEnough*1000 {
		x.Warn(checkStatement, "raise it, or set it to 0 in the DSN",
			"max_execution_time is %g ms: those who wait for a key are ended by it, and then look now and then instead", ms)
	}
	switch n := seconds(v["sql_select_limit"]); {
	case n <= renewBatch:
		x.Fault(checkStatement, "take it out of the DSN, or set it to DEFAULT",
			"sql_select_limit is %g: leases that an answer leaves out are taken for lost, and what is said here of tables may be wrong", n)
	case n < selectEnough:
		x.Warn(checkStatement, "take it out of the DSN, or set it to DEFAULT", "sql_select_limit is %g: the list of locks ends there", n)
	}
	if len(x.Findings) == before {
		x.OK(checkStatement, "none that dibs would notice")
	}
}

// durability: what is promised of locks assumes that the store forgets nothing that it has confirmed.
func (x *examination) durability(v map[string]string) {
	value := v["innodb_flush_log_at_trx_commit"]
	switch value {
	case "1", "3":
		x.OK(checkDurability, "each commit is on the disk before it is confirmed (innodb_flush_log_at_trx_commit is %s)", value)
	case "":
		x.OK(checkDurability, "this server does not say")
	default:
		x.Warn(checkDurability, "set innodb_flush_log_at_trx_commit to 1 where locks matter more than writes that are quick",
			"innodb_flush_log_at_trx_commit is %s: when the server's machine fails, the locks of the last second are forgotten while their holders go on", value)
	}
}

func (x *examination) binaryLog(ctx context.Context, conn *sql.Conn) error {
	statements, err := logsStatements(ctx, conn)
	switch {
	case err != nil:
		return err
	case statements:
		x.Warn(checkBinaryLog, "set binlog_format to ROW or MIXED",
			"binlog_format is STATEMENT: InTx is refused by the server, and those who wait for a key are not woken but look now and then")
	default:
		x.OK(checkBinaryLog, "it is off, or has rows")
	}
	return nil
}

const (
	// connectionsNeeded is what one process needs that waits.
	connectionsNeeded = 2
	// nearlyFull is the share of max_connections, in percent, from which on it may be reached any moment.
	nearlyFull = 80
)

func (x *examination) connections(ctx context.Context, conn *sql.Conn) error {
	v, err := variables(ctx, conn, "SESSION VARIABLES", "max_connections", "max_user_connections")
	if err != nil {
		return err
	}
	state, err := variables(ctx, conn, "GLOBAL STATUS", "threads_connected")
	if err != nil {
		return err
	}
	most, own, used := seconds(v["max_connections"]), seconds(v["max_user_connections"]), seconds(state["threads_connected"])
	if used*100 >= most*nearlyFull {
		x.Warn(checkConnections, "raise max_connections, or close what else is connected",
			"%g of the server's %g are in use, and none may be left for the next process: each that holds or awaits a lock needs %d", used, most, connectionsNeeded)
	} else {
		x.OK(checkConnections, "%g of the server's %g are in use; each process that holds or awaits a lock needs %d", used, most, connectionsNeeded)
	}
	if own > 0 {
		x.userConnections(own)
	}
	return nil
}

// userConnections: with few of them a second process that waits is one too many.
func (x *examination) userConnections(own float64) {
	const advice = "raise max_user_connections, or the user's own limit (ALTER USER ... WITH MAX_USER_CONNECTIONS n)"
	switch {
	case own < connectionsNeeded:
		x.Fault(checkConnections, advice, "this user may have %g, and each process that holds or awaits a lock needs %d", own, connectionsNeeded)
	case own < 4*connectionsNeeded:
		x.Warn(checkConnections, advice, "this user may have %g, which is enough for %g processes that hold or await a lock", own, float64(int(own)/connectionsNeeded))
	default:
		x.OK(checkConnections, "this user may have %g", own)
	}
}

// seconds is a number of the server, 0 if there is none.
func seconds(value string) float64 {
	n, _ := strconv.ParseFloat(value, 64)
	return n
}

func on(value string) bool { return value == "ON" || value == "1" }

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
