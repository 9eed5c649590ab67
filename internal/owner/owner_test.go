package owner

import (
	"regexp"
	"testing"

	"github.com/dibs-go/dibs/dibsdriver"
)

func TestOwnersAreDifferentAndWellFormed(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-v]+$`)
	seen := map[string]bool{}
	for range 10_000 {
		o := New()
		if seen[o] || len(o) != dibsdriver.OwnerLen || !form.MatchString(o) {
			t.Fatal(o)
		}
		seen[o] = true
	}
}
