// # Row locks
//
// [Rows] are the other mode of this package: a lock that is a row, and is held exactly as long as a transaction. There is no lease, nothing is renewed, and nothing can
// lapse under the work: the server gives the row to the next when the transaction ends, however it ends, and what the work wrote is committed with the lock or not at all.
// That is the better lock for short work on the data of the same database, and for nothing else: the work holds a connection and a transaction, and so do those
// who wait in other processes; it has no fencing token; and what it does outside of the database is not undone.
//
//	rows, err := dibsmysql.NewRows(ctx, db, nil)
//	err = rows.Register(ctx, "stock")
//	err = rows.Do(ctx, "stock", func(ctx context.Context, tx *sql.Tx) error {
//		// Read and write by tx: what was committed under the lock before is seen, and nobody else is at it.
//	})
//
// Names are registered once, as rows of the table dibs_rows, and never deleted: a locking read that finds no row would lock nothing, or the gap where it would be, in
// which others then cannot insert. One hot name is spread over several rows by [Rows.Shard]; exclusion then holds for each shard alone.
//
// The lock is the first statement of the transaction, which is READ COMMITTED whatever the session's level is, so that all reads are fresh. Autocommit is off
// meanwhile. Both are put back at the end.
//
// How Do knows that the lock was held all the time: right after the lock it sets a savepoint, with a random name, and releases it before COMMIT. Whatever ends a
// transaction forgets its savepoints: DDL, BEGIN, LOCK TABLES, COMMIT, a deadlock, innodb_rollback_on_timeout, the loss of the connection. The work's own savepoints
// are younger, so going back to one of them keeps the lock and ours. (Tried for each of these on MySQL 9.7 and MariaDB 10.11. @@in_transaction is MariaDB's
// alone, is 1 again after BEGIN, and information_schema.innodb_trx needs the right PROCESS.) If it is gone, a part may be committed: dibs.ErrOutcomeUnknown and dibs.ErrLost. What
// the work wrote after that point is rolled back, since autocommit is off.
//
// Waiting: the waiters of a process for one row stand in one line, first come first served, and use one connection, on which the first of them waits in the server's own
// queue. When the last has left, the statement is ended there (KILL QUERY). [RowsConfig].MaxConns bounds the connections of all lines together, so that a crowd of
// waiters leaves the rest of the pool to the application.
//
// What ends a lock early: a session that is silent for wait_timeout (on MariaDB also idle_transaction_timeout) is ended by the server. The work's context then ends within
// a second, if the server can be reached. It is also what frees the row of a process that is frozen or cut off; one that was killed is noticed at once. So keep
// these time-outs short, and the works shorter.
//
// Row locks are those of one server. With Galera and Group Replication in multi-primary mode, NewRows refuses; see [RowsConfig].MultiPrimary. A failover ends all
// transactions, and with asynchronous replication the last commits may be lost with the old primary, as for any transaction.
//
// Besides the rights that leases need: GRANT SELECT, INSERT, UPDATE ON app.dibs_rows TO 'app'@'%'.
package dibsmysql
