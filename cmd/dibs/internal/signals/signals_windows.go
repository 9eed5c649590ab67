// Package signals knows which signals dibs passes on, and leaves alone those that were ignored when it started.
package signals

import (
	"os"
	"os/signal"
)

// Early is where signals come in that nobody else would see to. There are none there.
func Early() chan os.Signal { return make(chan os.Signal, 1) }

// EndByEarly does nothing.
func EndByEarly() {}

// Catch delivers the signals to ch. None can have been ignored from the start there.
func Catch(ch chan<- os.Signal, sigs ...os.Signal) { signal.Notify(ch, sigs...) }
