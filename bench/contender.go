package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// contender is one way of taking turns under a key, in one process. A peer gets its place by an entry in the list below.
type contender interface {
	// lock waits for the key, until ctx ends at the latest. The token is 0 where the contender has none.
	lock(ctx context.Context, key string) (token int64, unlock func() error, err error)
	// close gives up what was opened.
	close() error
}

// counter is a contender that knows how often it took a key from the store, which is less often than its sections where it hands on locally.
type counter interface {
	acquisitions() int64
	renewals() int64
}

// waysOf are the contenders, and the stores that each can use.
var waysOf = []struct {
	name   string
	stores []string
	open   func(s store, workers int) (contender, error)
}{
	{"dibs", storeNames, openDibs},
	{"insert", []string{"sqlite", "mysql", "mariadb"}, openInsert},
	{"row", []string{"sqlite", "mysql", "mariadb"}, openRow},
	{"getlock", []string{"mysql", "mariadb"}, openGetLock},
	{"mutex", []string{"memory"}, openMutex},
	// Without waiting: these two are measured alone only.
	{"driver", storeNames, openDriver},
	{"sql", []string{"sqlite", "mysql", "mariadb"}, openSQL},
}

// behindMutex makes of a contender's name that of the same behind a local FIFO mutex in each process.
const behindMutex = "+mutex"

// competing are the names of the contenders that can wait for a busy key.
var competing = []string{"dibs", "insert", "row", "getlock", "mutex", "insert" + behindMutex, "row" + behindMutex, "getlock" + behindMutex}

// suits reports whether a contender can use a store.
func suits(name, storeName string) bool {
	name = strings.TrimSuffix(name, behindMutex)
	for _, w := range waysOf {
		if w.name == name {
			return slices.Contains(w.stores, storeName)
		}
	}
	return false
}

// compete opens a contender for so many workers of this process.
func compete(name string, s store, workers int) (contender, error) {
	bare := strings.TrimSuffix(name, behindMutex)
	for _, w := range waysOf {
		if w.name != bare || !slices.Contains(w.stores, s.Name) {
			continue
		}
		c, err := w.open(s, workers)
		if err == nil && bare != name {
			c = &queued{contender: c, lines: make(map[string]*line)}
		}
		return c, err
	}
	return nil, fmt.Errorf("bench: no contender %q for the store %s", name, s.Name)
}
