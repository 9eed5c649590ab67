package dibsdrivertest_test

import (
	"testing"

	"github.com/dibs-go/dibs/dibsdrivertest"
)

// Side by side: while a server restarts, or somebody is frozen, not much happens.
func TestHistory(t *testing.T) {
	for _, f := range []dibsdrivertest.Factory{memoryStore, sqliteStore, crashingMySQL, crashingMariaDB} {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			dibsdrivertest.History(t, f)
		})
	}
}
