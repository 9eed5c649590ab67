package dibsdrivertest

import (
	"database/sql"
	"errors"
	"strings"
	"sync"

	"github.com/dibs-go/dibs"
)

// Rows of the application's own tables that remember the highest token.
var guardCases = []testcase{
	{name: "S5/Fact26/guard", run: guard, needs: fences},
}

// guard: a row takes no lower token than it has, nothing else is said to be wrong when the values were the same before, and of all who race the highest
// token stays.
func guard(e *env) {
	b := newFenceBed(e, dibs.Config{})
	b.must("CREATE TABLE guarded (id INT PRIMARY KEY, n BIGINT NOT NULL, token BIGINT NOT NULL DEFAULT 0, fence BIGINT)")
	b.must("INSERT INTO guarded (id, n) VALUES (1, 0)")
	update := func(token int64, set string, args ...any) error {
		return b.Guard(b.within(), GuardedRow{"guarded", "id = ?", []any{1}}, token, set, args...)
	}
	for i, c := range []struct {
		token int64
		set   string
		args  []any
		want  error
		n     int64
	}{
		{5000, "n = ?", []any{1}, nil, 1},
		{5000, "n = ?", []any{1}, nil, 1}, // the same values
		{5000, "", nil, nil, 1},
		{4999, "n = ?", []any{2}, dibs.ErrLost, 1},
		{6000, "", nil, nil, 1}, // claimed
		{5000, "n = n + 1", nil, dibs.ErrLost, 1},
		{6000, "n = n + ?, token = ?", []any{1, 7}, nil, 2},
		{0, "n = 3", nil, dibs.ErrUnavailable, 2},
		{1 << 53, "n = 3", nil, dibs.ErrUnavailable, 2},
	} {
		err := update(c.token, c.set, c.args...)
		if !errors.Is(err, c.want) || err != nil && c.want == nil || errors.Is(err, dibs.ErrOutcomeUnknown) {
			b.Errorf("update %d: %v, want %v", i, err, c.want)
		}
		if n := b.number("SELECT n FROM guarded WHERE id = 1"); n != c.n {
			b.Errorf("update %d: n is %d, want %d", i, n, c.n)
		}
	}
	missing := b.Guard(b.within(), GuardedRow{"guarded", "id = ?", []any{2}}, 9000, "n = 1")
	b.is(missing, sql.ErrNoRows, "a row that is not there")
	if errors.Is(missing, dibs.ErrLost) {
		b.Errorf("a row that is not there: %v", missing)
	}
	if err := update(9000, "nothing = 1"); err == nil || errors.Is(err, dibs.ErrLost) || !strings.Contains(err.Error(), "nothing was changed") {
		b.Errorf("a column that is not there: %v", err)
	}
	either := GuardedRow{"guarded", "id = 1 OR id = 3", nil}
	b.is(b.Guard(b.within(), either, 5999, "n = 9"), dibs.ErrLost, "an OR in where")
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if err := update(int64(10_000+i), "n = ?", i); err != nil && !errors.Is(err, dibs.ErrLost) {
				b.Errorf("one of many at once: %v", err)
			}
		})
	}
	all.Wait()
	n, fence := b.number("SELECT n FROM guarded WHERE id = 1"), b.number("SELECT fence FROM guarded WHERE id = 1")
	if n != 19 || fence != 10_019 {
		b.Errorf("of all who raced, the one with n = %d and token %d stays, want the highest token, 10019, and its n, 19", n, fence)
	}
}
