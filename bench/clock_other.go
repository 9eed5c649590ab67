//go:build !unix

package main

import "time"

// now reads the wall clock: it is one for all processes, and good as long as nobody sets it.
func now() mono { return mono(time.Now().UnixNano()) }

// processorTime is not known here.
func processorTime() time.Duration { return 0 }
