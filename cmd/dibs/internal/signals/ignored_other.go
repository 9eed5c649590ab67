//go:build unix && !linux

package signals

// ignoredAtStart: nothing is known but what signal.Ignored tells.
func ignoredAtStart() uint64 { return 0 }
