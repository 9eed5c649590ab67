// Package dibsmem is a store in memory, for the unit tests of code that takes locks: no server, no files, and inside of a
// testing/synctest bubble no waiting either. It keeps every guarantee of the real stores, within one process.
//
// Two Lockers on one Store behave like two processes:
//
//	store := dibsmem.New()
//	a, _ := dibs.New(store, nil)
//	b, _ := dibs.New(store, nil)
//
// [Store.Expire] takes a lease away as if its holder had been frozen, [Store.Fail] makes the store unavailable.
package dibsmem
