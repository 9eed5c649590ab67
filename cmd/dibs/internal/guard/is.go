// Package guard is the process between dibs run and COMMAND. It leads COMMAND's process group, knows until when the lease is
// good, and ends the group by its own timer before the lease can pass on. So this also holds when the wrapper is killed or
// frozen, and for all that COMMAND has started.
package guard

// Name is the guard's own name, by which dibs knows that it was started as one.
const Name = "dibs-guard"

// Is tells whether this process was started as a guard.
func Is(args []string) bool { return len(args) > 0 && args[0] == Name }
