package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestRunsOnceHoweverManyStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.db")
	outs := make([]bytes.Buffer, 5)
	start := func(i int) {
		if err := run(t.Context(), path, &outs[i]); err != nil {
			t.Error(err)
		}
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { start(i) })
	}
	wg.Wait()
	start(4) // late

	var all strings.Builder
	for i := range outs {
		all.Write(outs[i].Bytes())
	}
	if got := strings.Count(all.String(), "page 1\npage 2\npage 3\n"); got != 1 {
		t.Errorf("the job ran %d times", got)
	}
	if got := strings.Count(all.String(), "another instance has it tonight\n"); got != 4 {
		t.Errorf("%d instances stood back, want 4", got)
	}
	if t.Failed() {
		t.Log(all.String())
	}
}
