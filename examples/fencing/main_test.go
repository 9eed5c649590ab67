package main

import (
	"bytes"
	"path/filepath"
	"testing"
)

func TestStaleWriterIsRefused(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), filepath.Join(t.TempDir(), "locks.db"), &out); err != nil {
		t.Fatal(err)
	}
	const want = `first has the lock, and is frozen before it writes
the operator breaks "stock" of first
second has the lock, and writes
first writes: stale token: somebody else has taken over
first finds out on release that its lock was lost
stock: 41
`
	if out.String() != want {
		t.Errorf("got:\n%swant:\n%s", out.String(), want)
	}
}
