//go:build slowwire

package dibsdrivertest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdrivertest"
)

// TestSlowWire (make test-all): the suite as it is between two machines. What takes no time here takes some there, and statements of one process overtake those of
// others.
func TestSlowWire(t *testing.T) {
	slow := func(f dibsdrivertest.Factory, there, back time.Duration) {
		f = dibsdrivertest.Through(f, func(p *dibsdrivertest.Proxy) { p.Delay(there, back) })
		f.RoundTrip = there + back
		t.Run(fmt.Sprint(f.Name, " ", there+back), func(t *testing.T) { dibsdrivertest.Run(t, f) })
	}
	if !dibsdrivertest.Long() {
		one := mysqlStore
		one.Cases = safety
		slow(one, 2*time.Millisecond, time.Millisecond)
		return
	}
	for _, f := range []dibsdrivertest.Factory{mysqlStore, mariadbStore} {
		slow(f, 2*time.Millisecond, time.Millisecond)
		slow(f, 15*time.Millisecond, 15*time.Millisecond)
		slow(f, 50*time.Millisecond, 50*time.Millisecond)
	}
}

// safety selects the cases that a slow wire could make unsafe, and those of lost answers.
func safety(name string) bool {
	for _, prefix := range []string{"S1/", "S2/", "S4/", "S5/"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
