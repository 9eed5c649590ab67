// Package dibsdrivertest is the one suite that every driver of dibs has to pass, and the tools it is made of.
//
// A driver's test is one call:
//
//	func TestSQLite(t *testing.T) {
//		dibsdrivertest.Run(t, dibsdrivertest.Factory{Name: "sqlite", New: newSQLite})
//	}
//
// together with a [Main] in TestMain, which lets the test binary start copies of itself: processes that can be killed and frozen.
//
// [Run] tests the driver's own moves, and the engine on top of the driver, since a guarantee is only worth what the two
// together keep. Subtests are named after the guarantee (S1 to S8, L1 to L6) or the incident (B01 and so on) that they are about. A store in
// memory is tested inside of a testing/synctest bubble, where a timer is exact; all others in real time, where a test
// waits for what must happen and measures when it did.
//
// The guarantees, in short (the argument for them opens doc.go of package dibs):
//
//   - S1: at most one unexpired owner of a key. S2: renewal and release touch only this owner's lease. S3: a holder learns of a loss before anybody else can have the key.
//     S4: fencing tokens rise. S5: an acquire whose answer was lost leaves nothing behind for long. S6: a release needs no live context. S7: a fenced transaction does not
//     commit once its lease has passed on. S8: errors are not hidden.
//   - L1: a dead holder's key is free one TTL later. L2: a waiter returns in time, and leaves nothing behind. L3: first come, first served; nobody starves. L4: one failed
//     renewal loses nothing. L5: no leaks. L6: waiters sit outages out; a first contact that fails is told at once.
//
// [History] is the random test: several processes under kill, freeze and slow stores, and a checker that knows what a
// leased lock may do; a store that is a [Crasher] is killed in it as well, and [Crash] looks whether anything is lost by that. [Faulty] and [Proxy] make a
// store, or the wire to it, go wrong on purpose: a store that is [Networked] has the cases of loss, retry, lost answers and outages on a real wire, too,
// and [Through] gives it all cases on one. A store that is a [Fencer] has those of fenced transactions (S7), with 1,000 transfers between accounts by processes
// that are frozen and killed.
package dibsdrivertest
