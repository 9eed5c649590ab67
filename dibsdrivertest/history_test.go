package dibsdrivertest_test

import (
	"testing"

	"github.com/dibs-go/dibs/dibsdrivertest"
)

func TestHistory(t *testing.T) {
	for _, f := range []dibsdrivertest.Factory{memoryStore, sqliteStore, crashingMySQL, crashingMariaDB} {
		t.Run(f.Name, func(t *testing.T) { dibsdrivertest.History(t, f) })
	}
}
