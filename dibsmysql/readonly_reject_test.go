package dibsmysql

import (
	"errors"
	"testing"

	"github.com/dibs-go/dibs"
)

// TestFact33_RejectReadOnly: with that in the DSN go-sql-driver says of a read-only server that the connection broke. It is ErrReadOnly all the same, and what was
// held goes on when the server takes writes again.
func TestFact33_RejectReadOnly(t *testing.T) {
	t.Parallel()
	onBothAlone(t, nil, func(t *testing.T, b *bed) {
		l := b.locker(t, "rejectReadOnly=true", nil)
		lock, _ := hold(t, l, "held")
		readOnly := func(on string) { b.must(t, b.admin, "SET GLOBAL read_only = "+on) }
		readOnly("ON")
		fresh := b.locker(t, "rejectReadOnly=true", nil)
		for what, f := range map[string]func() error{
			"acquire":             func() error { _, _, err := l.TryAcquire(within(t), "new"); return err },
			"a first contact":     func() error { _, _, err := fresh.TryAcquire(within(t), "new"); return err },
			"ping":                func() error { return l.Ping(within(t)) },
			"asking after a lock": func() error { return lock.Verify(within(t)) },
		} {
			if err := f(); !errors.Is(err, dibs.ErrReadOnly) || !errors.Is(err, dibs.ErrUnavailable) {
				t.Errorf("%s: %v", what, err)
			}
		}
		readOnly("OFF")
		if err := lock.Verify(within(t)); err != nil {
			t.Errorf("the lock that was held: %v", err)
		}
		next, _ := hold(t, fresh, "new")
		if err := errors.Join(next.Release(), lock.Release()); err != nil {
			t.Error(err)
		}
	})
}
