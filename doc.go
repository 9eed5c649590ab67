// Package dibs provides distributed locks on the store that you already run: one process at a time works under a key,
// across machines.
//
//	db, err := sql.Open("mysql", "app:password@tcp(db.example.com)/app") // with github.com/go-sql-driver/mysql
//	locker, err := dibs.New(dibsmysql.New(db, nil), nil)                 // or of dibssqlite.Open, dibsmem.New and their like
//	err = locker.Do(ctx, "nightly-report", func(ctx context.Context) error {
//		return writeReport(ctx) // ctx ends when the lock is lost
//	})
//
// On MySQL and MariaDB the tables are made once, by the command dibs init, by your own migrations (dibsmysql.Schema) or by CreateTables of the driver;
// [Locker.Ping] says at the start of a program whether all is there. SQLite makes them by itself.
//
// A lock with an end is a lease: it is renewed while the work goes on, and lapses by itself when its holder dies. No lease can
// promise more than its failure model allows. This is ours, and what follows from it.
//
// # Failure model
//
//   - Processes stop, freeze and resume at any point.
//   - The network delays, drops and repeats messages; connections end in mid-request.
//   - The wall clocks of clients may say anything.
//   - A process's monotonic clock runs within 0.1 % of the store's clock.
//   - The store's clock does not step forward by more than the margin.
//   - The store loses no write that it has acknowledged.
//
// Where one of the last three breaks (a failover that loses writes, a clock that was set), two holders are possible. Fencing
// tokens and fenced transactions are the defence then, not the lock.
//
// # Why at most one holder believes in a lease
//
// The store decides who holds a key, by one atomic move and by its own clock alone. Clients send durations, never times, so that no
// client's clock matters.
//
// A holder believes in its lease only within its trust window: from the moment before it sent the last request that succeeded, for TTL
// less a margin, by its own monotonic clock. The store counted the TTL from when the request arrived, which was later. So the
// window ends before the lease does, by at least the margin, which covers the drift of the clocks and the time in which the work notices that its
// context ended. An answer that comes late does not move the window: it counts from its request, and once the window is over
// nothing opens it again.
//
// The end of the window is watched by a timer that waits for no call: a store that hangs, errs, answers late or is cut off
// makes no difference. One failed renewal makes none either: renewal begins at a third of the TTL and is tried again, beside a
// request that hangs, until the window ends. Of a renewal's four answers (renewed, lost, unknown, refused) only "lost" ends a lease at
// once; unknown only lets the clock run down.
//
// While a process is frozen it can do nothing, so nothing needs to be done in time; when it resumes, its timers are due at once. While a machine
// sleeps, its monotonic clock may stand still, and timers with it: when the wall clock has run ahead of the monotonic one, every lease is in
// doubt until the store has confirmed it, and one that was just being acquired is given back: no work begins in doubt.
//
// What a process does between the end of its window and its noticing is beyond any lock: a thread can be frozen just before the write that it
// has decided on. For this there is [Lock.Token], which rises with every acquisition of a key: a resource that remembers the highest token it has
// seen refuses the writer that was overtaken (Kleppmann, "How to do distributed locking", 2016; Gray and Cheriton,
// "Leases", 1989, have the rest of the argument).
//
// # Why nothing is left behind
//
// Each acquisition has an owner, a random name that is chosen before the store is asked and sent once. Renewal and release
// touch only what has this owner. When an acquire's answer is lost, the caller is told [ErrUnavailable], never "busy", and the owner is taken back
// in the background, for as long as its request could still arrive. Requests belong to the line of their key, not to a caller's
// context: an answer that its caller did not wait for goes to the next in line, or the lease is given back.
//
// A release stops renewal first, whatever becomes of its request; the worst that a lost release leaves is a lease that lapses. Nothing
// is released, or handed on, under work that still runs.
//
// # Tokens
//
// A token is the highest of: the key's previous token plus 1024, the store's time in microseconds, and the highest that this process has seen
// of the key plus 1024. They are below 2^53. They rise over release, expiry, removal of old rows, a restart of the store,
// and a clock that was set back. This ends where a store's clock is set back further than it keeps the rows of free keys (one
// minute) while no process remembers; SQLite and memory keep the highest token of the removed rows, so there it does not end.
//
// # What is not promised
//
//   - That the work stops when its context ends. Only the work can do that.
//   - That a write which the work has sent arrives while the lock is held. See tokens.
//   - That a key passes on sooner than a TTL after its holder died: nobody can tell a dead process from a slow one.
//   - Order between processes, beyond that nobody starves. Within a process it is first come, first served.
//   - That work runs exactly once. A lock is about "not at the same time"; make work idempotent.
//   - Exclusion between a lock's re-entries (see [Reenter]), or between shards (see [Shard]).
//   - Anything at all under a store that lost acknowledged writes, except what tokens and fenced transactions refuse.
//
// # When not to use it
//
// A single conditional statement needs no lock: UPDATE stock SET n = n - 1 WHERE sku = ? AND n > 0. A callback that may come twice needs
// a unique key for what it does, with a lock or without. A lock in front of these saves work; it is never the only defence.
package dibs
