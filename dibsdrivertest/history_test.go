package dibsdrivertest_test

import (
	"testing"

	"github.com/dibs-go/dibs/dibsdrivertest"
)

func TestHistory(t *testing.T) {
	for _, f := range []dibsdrivertest.Factory{memoryStore, sqliteStore} {
		t.Run(f.Name, func(t *testing.T) { dibsdrivertest.History(t, f) })
	}
	for _, f := range []dibsdrivertest.Factory{crashingMySQL, crashingMariaDB} {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel() // with the other: while a server restarts, not much happens
			dibsdrivertest.History(t, f)
		})
	}
}
