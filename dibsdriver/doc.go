// Package dibsdriver is the contract between dibs' engine and the stores.
//
// It is not stable yet: names may still change between minor releases, so write a driver
// outside of this repository only if you can follow along.
//
// # Who does what
//
// The engine (package dibs) owns every semantic that users see: waiting and its order, renewal,
// trust windows, loss, release and its retries, re-entry, max hold, shutdown, handoff. A driver only
// makes the atomic moves, each of them once per call: it never retries a move that may have been
// applied, never waits for a key to become free inside [Driver.Acquire], and starts no goroutine that outlives
// [Driver.Close].
//
// # What every move must guarantee
//
//   - It is atomic at the store: it happens wholly or not at all, however the call ends.
//   - Expiry is decided by the store's clock alone. Clients send durations, never times.
//   - Keys and owners compare as bytes. Keys are 1 to 255 bytes of valid UTF-8 (a NUL among them is
//     valid), owners are [OwnerLen] characters of [0-9a-v].
//   - It ends when its context ends, at the latest [Grace] after. The engine survives a driver that does
//     not (it abandons the call and settles its outcome when it comes, if ever), but the connection
//     under it is gone as long.
//   - An error that leaves open whether the move was, or still will be, applied has [FateUnknown], which is
//     what an error has that says nothing. A driver says [NotApplied] or [Settled] only where it knows.
//   - Errors name the store (never with a password), say what happened, and wrap the names of this
//     package that callers test with errors.Is: [ErrUnavailable], [ErrReadOnly], [ErrRefused] and so on.
//   - All methods may be called concurrently.
//
// # Stores without a clock, stores with sessions
//
// A store whose leases hang on one session per client (etcd, ZooKeeper) sets [Limits].SessionTTL: the engine then
// refuses a TTL per call with ErrUnsupported, passes that TTL to every move, renews all leases in one batch as ever
// (the driver needs one request for all of them and answers per lease), and goes on taking back an uncertain acquire until
// it is confirmed, since nothing there lapses by itself. A store without a clock makes fencing tokens from its
// own order (revision, zxid) times [TokenStep] and may ignore [AcquireParams].Floor.
//
// # Waiting
//
// A waiter polls by calling Acquire again, each time with a new owner. Optional interfaces make that
// cheaper and fairer: [Waker], which tells the engine when to ask again, [Leaver], for what the store keeps for a waiter, and
// [Contender], which lets a process know that others wait while it hands a lease on among its own. Correctness rests on none of them.
//
// # Examining
//
// A driver that is a [Doctor] can say what is wrong with its store, for the command dibs doctor.
package dibsdriver
