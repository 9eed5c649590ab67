package call

import "testing"

func TestCancelled(t *testing.T) {
	g := NewGroup()
	if g.Cancelled() {
		t.Error("a new group counts as cancelled")
	}
	g.Cancel()
	if !g.Cancelled() {
		t.Error("a cancelled group does not say so")
	}
}
