package dibs_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// An error of the store names it once, whether its driver calls it by the name that it had before the first contact, by a better one, or by none.
func TestErrorsNameTheStoreOnce(t *testing.T) {
	cause := errors.New("it is away")
	for name, c := range map[string]struct {
		err  error
		once string
	}{
		"the same name":   {dibsdriver.Failed("memory", "acquire", "away", cause, dibsdriver.ErrUnavailable), "memory"},
		"a better name":   {dibsdriver.Failed("mariadb:h:3306/db", "acquire", "away", cause, dibsdriver.ErrUnavailable), "mariadb:h:3306/db"},
		"without a name":  {dibsdriver.Named(cause, dibsdriver.ErrUnavailable), "memory"},
		"a lone sentinel": {dibsdriver.ErrUnavailable, "memory"},
	} {
		bubble(t, dibs.Config{}, func(t *testing.T, h *house) {
			check := func(doing string, err error) {
				t.Helper()
				want(t, err, dibs.ErrUnavailable)
				text := err.Error()
				if strings.Count(text, c.once) != 1 || !strings.HasPrefix(text, doing+` "k"`) || c.once != "memory" && strings.Contains(text, "memory") {
					t.Errorf("%s: %s", name, text)
				}
			}
			h.driver.OnAcquire(func(context.Context, dibsdriver.AcquireParams) (dibsdriver.AcquireResult, error) {
				return dibsdriver.AcquireResult{}, dibsdriver.NotApplied(c.err)
			})
			_, _, err := h.Acquire(t.Context(), "k")
			check("acquiring", err)
			h.driver.OnAcquire(nil)
			lock, _ := h.take(t)
			h.driver.OnRelease(func(context.Context, dibsdriver.ReleaseParams) error { return dibsdriver.NotApplied(c.err) })
			check("releasing", lock.Release())
			h.driver.OnRelease(nil)
		})
	}
}
