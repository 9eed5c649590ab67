// Package dibsmysql lets dibs keep its locks in a database of a MySQL or MariaDB server, in tables beside the user's own.
//
//	db, err := sql.Open("mysql", "app:password@tcp(db.example.com)/app")
//	locker, err := dibs.New(dibsmysql.New(db, nil), nil)
//
// It works with MySQL from 8.0.1 and MariaDB from 10.6 on, and is tested on MySQL 9.7 and MariaDB 10.11. On older servers, and on TiDB, leases are
// renewed one by one, for want of SKIP LOCKED.
//
// # Tables and rights
//
// There are two small tables for leases, dibs_leases and dibs_meta (see [Config].TablePrefix), and dibs_rows for row locks (see [Rows]). The driver never creates them unasked: run "dibs init" once, or call
// [Driver.CreateTables], or put the DDL that [Schema] returns into your own migrations. A row stays when its lock is released, marked free: it keeps the
// fencing token, and deleting it would make the server find deadlocks. Where keys are new each time, remove old rows: see below.
//
// The application's user needs no more than this:
//
//	GRANT SELECT, INSERT, UPDATE, DELETE ON app.dibs_leases TO 'app'@'%';
//	GRANT SELECT, INSERT, UPDATE, DELETE ON app.dibs_meta TO 'app'@'%';
//
// and whoever runs dibs init, CREATE on the database as well. Ping tries each of these rights, without changing a row: call it when you deploy.
//
// # The pool
//
// The driver uses the *sql.DB that it is given, with whatever DSN suits the application: character set, time zone, SQL mode, isolation level,
// clientFoundRows, interpolateParams, parseTime, loc and rejectReadOnly make no difference. Only autocommit=0 is refused: nobody else would see a lock.
//
// One connection is the driver's own from the first lock on, for renewals, until Close. The pool must allow two (SetMaxOpenConns), and should
// allow one more than the application needs for itself. When the application has used the pool up, leases live on, and releases and
// acquisitions take turns on that one connection. (If that very connection breaks meanwhile, the next one has to wait for a place in the pool like any other; leases
// that are not renewed before their time is over are lost then, and say so. A pool for locks alone has no such wait.) SetMaxIdleConns is 2 by default: raise it where many workers take locks, or each of them dials.
//
// # What it costs
//
// An acquisition is one statement and one round trip, and so is a release; a hold of more than 20 ms costs two small statements besides, one after those 20 ms
// and one beside the release. A busy key costs a second one, which reads who has it; while the
// key stays busy, each further question is that reading alone, which locks nothing. All leases of a process are renewed together, up to 500 in a statement
// that waits for no row.
//
// Times are made and compared by the server, in UTC and in microseconds. The smallest TTL is 100 ms.
//
// # Waiting
//
// The waiters of a process for one key are one waiter to the server. It reads the row a few times and then waits inside the server for a named lock (GET_LOCK, "dibs:" and a
// hash) that the holder has, first come first served over all processes, on a connection that it borrows from the pool meanwhile: at most half of the pool, and 32; see
// [Config].WaitConnections. Nothing rests on these named locks: where the server refuses them, behind a proxy that shares connections, or on another node of a cluster,
// waiters read the row now and then. A process that has just let go of a contended key waits its turn. The next in line that does not take its turn for a second, because
// its process is frozen or its machine gone, has its connection ended (KILL) by who takes the key instead.
//
// # Old rows
//
// A row of some 100 bytes stays for each key that was ever taken, until somebody sweeps: a driver with [Config].Sweep, all the time; [Driver.Sweep], once; or the
// command dibs sweep, once. Without any of them nothing is removed, which is right for a few thousand keys. Rows of keys that have been free or expired for longer
// than the retention, a minute, then go. Let every process have it, if any: one at a time does the work for all, the next takes over 30 s after it died.
//
//	dibsmysql.New(db, &dibsmysql.Config{Sweep: &dibsmysql.SweepConfig{Report: func(r dibsmysql.SweepReport) { removed.Add(r.Rows) }}})
//
// A sweep is in nobody's way. It reads without locks, window by window along the primary key, and removes 50 rows at a time by their keys, if they are still as old by then;
// it waits for no row, takes a pause after each statement as long as that took, and uses one connection of the pool, for one statement at a time, as long as
// there is one to spare. It needs no other rights than those above. A lease that is live, was renewed or taken again is not touched.
//
// Fencing tokens rise over it: a row goes only when the server's clock has passed its token by the retention, so a new row's token, which is the time, is higher. That
// ends where the clock is set back by more than the retention: then a process that first used the tables before the row went may give a lower token, and
// one that came after does not, since the highest token of all removed rows is kept in dibs_meta. The token of a statement that waited in the server is
// checked against it, too.
//
// # What to know about waiting in the server
//
// Only a transaction that has locked a row of dibs_leases can make a statement wait there: a stranger's, or one that is fenced by the lock and commits just then. When the context
// ends first, the driver closes the
// connection, as the client library does, finds the statement in SHOW FULL PROCESSLIST, and ends it (KILL QUERY, for which a user needs no right on
// its own threads). Where nobody is left to do that, because the client was killed, the statement waits for innodb_lock_wait_timeout at
// the longest, and the lease that it then takes ends where it would have ended without the wait: one TTL after the statement arrived.
//
// # What a failover can lose
//
// Replication is asynchronous by default. A replica that is promoted without the primary's last transactions does not know the locks that were taken in them, and gives
// them out again while their holders still work: two holders, until the first one's next renewal finds nothing there and its work's context ends. Semi-synchronous
// replication (rpl_semi_sync_source_wait_point=AFTER_SYNC), Group Replication and Galera narrow that or close it. An old primary that goes on taking writes lets its
// holders go on for good: stop it before another is promoted. What is left is for fencing tokens: they go on rising over a failover, since they follow the time (unless
// the new primary's clock is behind the old one's by more than the time since the acquisition; a process that has seen the higher token never accepts a lower one), so
// a resource that refuses lower ones is safe.
//
// A server that takes no writes, because it was demoted, answers ErrReadOnly; the driver gives such a connection up, so that the next one is dialled
// anew. Connect by a name that leads to the present primary.
//
// Do not let a proxy send SELECTs to replicas (ProxySQL's query rules, MaxScale's readwritesplit): a replica that lags would say that a lease is lost which
// stands. Connect to the primary, or by a port of the proxy that leads there.
//
// With Galera, connect all processes to one node, or count on more errors that are only retried: concurrent writes of one row on two nodes end as
// deadlocks. The leases hold all the same.
//
// # Fenced transactions
//
// A lease can lapse while its holder is frozen, and then a transaction of that holder must not commit. [InTx] runs one that commits while the lease
// stands, or not at all: the last thing before its commit is a locking read of the lease's row. Whoever wants to take the key over waits for the row,
// and finds the work done. [InTxAndRelease] releases the lock by the same commit, and [Fence] is for transactions that somebody else begins and
// commits.
//
//	err := dibsmysql.InTx(ctx, db, lock, func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 7")
//		return err
//	})
//
// What holds: after the lease passed to another owner, or the lock was released, no transaction fenced by it commits. With InTx a release, or a
// handoff within the process, waits for the commit, at most RequestTimeout; after that, as with Fence alone, the row decides, which the release has
// to change. A transaction that is open for long keeps no lease from being renewed, but its own, and that only from the fence to the commit. What
// does not hold: work outside of the transaction is not undone. The lock and the data have to be in one server; the databases may differ. On a node
// of Galera, or of Group Replication with several primaries, which see only their own row locks, the fence also writes the row, and the commit fails if the lease has
// passed on at another node.
//
// InTx costs a transaction six short statements more (on a connection that it takes from the pool). With binlog_format=STATEMENT the server
// refuses to write at READ COMMITTED, which InTx uses.
//
// A commit whose answer was lost is [dibs.ErrOutcomeUnknown]. Let the transaction write a row with the fencing token, and look for it. Set
// readTimeout in the DSN: without it, a commit on a dead connection ends with the context only, and the connection when the network gives it up.
//
// For data in another server there is [Guard].
//
// # Errors
//
// Every error says what happened, on which server and database as soon as that is known, never a password, and what to do next. They match with errors.Is the names of dibs: ErrUnavailable,
// ErrReadOnly, ErrLost and so on. The cause, mostly a *mysql.MySQLError, is there for errors.As.
package dibsmysql
