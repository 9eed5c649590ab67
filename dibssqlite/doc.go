// Package dibssqlite lets dibs keep its locks in an SQLite file: for the processes of one machine, without a server.
//
//	store, err := dibssqlite.Open("/var/lib/app/locks.db", nil)
//	locker, err := dibs.New(store, nil)
//
// [Open] keeps the locks in a file of their own, which is the best place for them. [New] keeps them in tables beside the user's
// own, in a database that the user has opened with modernc.org/sqlite. The tables are made on first use; [Schema] shows them.
//
// # Who shares a lock
//
// All processes that open the same file, by whatever path, with the same [Config].TablePrefix. They may be different programs, and
// different releases of dibs one minor apart. A program that finds tables of a newer schema changes nothing and says so.
//
// # What it costs
//
// One acquisition or release is one small transaction, well under a millisecond on a local disk. SQLite lets one
// writer into a file at a time, so all keys of a file share this; a waiter that asks again only reads. Times are kept in milliseconds, TTLs are
// rounded up to them, and the smallest is 100 ms.
//
// # What it cannot do
//
//   - It works on one machine. On a network file system (NFS, SMB, and what some container platforms mount) SQLite's locks do not hold
//     and the write-ahead log cannot be shared; this cannot be detected. Put the file on a local disk.
//   - A transaction that some process keeps open in the same file for longer than a lease's trust window costs the leases of that file, since none
//     can be renewed meanwhile. A process that is frozen (SIGSTOP, a debugger) in the middle of a write does that too, until it is killed or goes on.
//     With Open only dibs writes to the file. With New it is up to the user's own transactions to be short.
//   - The clock is the machine's. When it steps forward, leases end early by as much.
//   - A child made by a bare fork(2) must not use the parent's connections (SQLite's own rule). Starting programs with os/exec is
//     fine: nothing is inherited.
//   - No other code in the process may open and close the database file itself (os.Open, a backup by copying): on POSIX systems closing
//     any descriptor of a file drops all locks that the process has on it. Use another process, or VACUUM INTO.
//   - Deleting or replacing the file lets go of all its locks. Open notices it and starts with the new file, in which the old leases are lost.
//
// # Fenced transactions
//
// A lease can lapse while its holder is frozen, and then a transaction of that holder must not commit. [InTx] runs one that commits while the lease
// stands, or not at all. [InTxAndRelease] releases the lock by the same commit, and [Fence] is for transactions that somebody else begins and
// commits. The lock has to be in the file of the data: let the driver use the same database by [New], or the same file by [Open].
//
//	err := dibssqlite.InTx(ctx, db, lock, func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 7")
//		return err
//	})
//
// What holds: after the lease passed to another owner, or the lock was released, no transaction fenced by it commits. It has the file's write lock,
// so that nobody takes a key over, or releases one, before it is over; nor is any lease of the file renewed meanwhile, so keep it short. A deferred
// transaction that has only read is refused, since the next renewal would make it fail. What does not hold: work outside of the transaction is not
// undone.
//
// For data in another file there is [Guard].
//
// # Power cuts
//
// Open uses synchronous=NORMAL: after a power cut the file is whole, but may lack the last few transactions. That is harmless, as all
// holders lived on the same machine and ended with it. Fencing tokens still rise, because they follow the clock; only a
// key that was taken more often than 976 times a second, for so long that its tokens ran ahead of the clock by more than the machine took to come back, could see one again.
//
// # Errors
//
// Every error names the file, what happened, and what to do next. They match with errors.Is the names of dibs: ErrUnavailable (the file is
// locked, full, damaged, not there), ErrReadOnly, ErrLost and so on. The cause, mostly a *sqlite.Error, is there for errors.As.
package dibssqlite
