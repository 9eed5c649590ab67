// Package guard is the process between dibs run and COMMAND. It leads COMMAND's process group, knows until when the lease is
// good, and ends the group by its own timer before the lease can pass on. So this also holds when the wrapper is killed or
// frozen, and for all that COMMAND has started.
package guard

import "os"

// Name is the guard's own name, by which dibs knows that it was started as one.
const Name = "dibs-guard"

// A guard lives its life here, and not in main: Go initializes packages in the order of their paths once what they need is ready, so it
// need not wait for the drivers of all stores to be initialized, which takes longer than all the rest of its start. For the same reason neither this
// package nor what it imports uses strings, strconv, fmt or golang.org/x/sys/unix: by their names those come after much of what the drivers need.
func init() {
	if len(os.Args) > 0 && os.Args[0] == Name {
		os.Exit(Main(os.Args))
	}
}
