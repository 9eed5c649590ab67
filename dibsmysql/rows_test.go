package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

// TestRows: the work is committed if it returns nil, and rolled back if it fails, panics, or its context ends; and nothing is left in any case.
func TestRows(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		db := b.pool(t, "")
		r := b.rowsOn(t, db, nil)
		if err := r.Do(t.Context(), "a", func(ctx context.Context, tx *sql.Tx) error {
			if !b.isLocked(t, "a") || b.isLocked(t, "b") {
				t.Error("the row is not locked, or another is")
			}
			return set(1, 7)(ctx, tx)
		}); err != nil {
			t.Fatal(err)
		}
		failure := errors.New("the work failed")
		if err := r.Do(t.Context(), "a", func(ctx context.Context, tx *sql.Tx) error {
			return errors.Join(set(1, 8)(ctx, tx), failure)
		}); !errors.Is(err, failure) || errors.Is(err, dibs.ErrOutcomeUnknown) {
			t.Error(err)
		}
		func() {
			defer func() {
				if p := recover(); p != "the work panics" {
					t.Errorf("panic %v", p)
				}
			}()
			_ = r.Do(t.Context(), "a", func(ctx context.Context, tx *sql.Tx) error {
				_ = set(1, 9)(ctx, tx)
				panic("the work panics")
			})
		}()
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("a cause")
		err := r.Do(ctx, "a", func(ctx context.Context, tx *sql.Tx) error {
			err := set(1, 10)(ctx, tx)
			cancel(cause)
			<-ctx.Done()
			return err
		})
		if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) || !strings.Contains(err.Error(), "not committed") {
			t.Error(err)
		}
		if n := b.stock(t, 1); n != 7 {
			t.Errorf("%d is in the table", n)
		}
		b.nothingLeft(t, db)
		ran, err := r.TryDo(t.Context(), "a", set(1, 11))
		if !ran || err != nil || b.stock(t, 1) != 11 {
			t.Error(ran, err)
		}
		if err := r.Do(ctx, "a", set(1, 12)); !errors.Is(err, cause) || b.stock(t, 1) != 11 {
			t.Error(err)
		}
	})
}

// TestRowsOneAtATime: 8 processes (pools) with 5 workers each count in a table; some fail, some are cancelled. Each success counts once.
func TestRowsOneAtATime(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		want, inside := int64(0), 0
		for p := range 4 {
			r := b.rows(t, "")
			for i := range 5 {
				wg.Go(func() {
					for n := range 12 {
						ctx, cancel := context.WithCancel(within(t))
						err := r.Do(ctx, "a", func(ctx context.Context, tx *sql.Tx) error {
							mu.Lock()
							inside++
							if inside != 1 {
								t.Error("two at once")
							}
							mu.Unlock()
							defer func() {
								mu.Lock()
								inside--
								mu.Unlock()
							}()
							var have int
							if err := tx.QueryRowContext(ctx, "SELECT n FROM stock WHERE id = 2").Scan(&have); err != nil {
								return err
							}
							if err := set(2, have+1)(ctx, tx); err != nil {
								return err
							}
							switch (p + i + n) % 5 {
							case 0:
								return errTest
							case 1:
								cancel()
							}
							return nil
						})
						cancel()
						if err == nil {
							mu.Lock()
							want++
							mu.Unlock()
						} else if !errors.Is(err, errTest) && !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		if n := b.stock(t, 2) - 100; n != want || want == 0 {
			t.Errorf("counted %d, of %d successes", n, want)
		}
	})
}

var errTest = errors.New("the work fails")

// TestRowsRefuses: what is wrong is said at once, and leaves nothing.
func TestRowsRefuses(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		db := b.pool(t, "")
		r := b.rowsOn(t, db, nil)
		never := func(context.Context, *sql.Tx) error { t.Error("the work ran"); return nil }
		for _, c := range []struct {
			name string
			want error
		}{
			{"never registered", ErrNotRegistered}, {"A", ErrNotRegistered}, {"a ", ErrNotRegistered}, {"'; DROP TABLE stock", ErrNotRegistered},
			{"", dibs.ErrInvalidKey}, {strings.Repeat("x", 256), dibs.ErrInvalidKey}, {"\xff", dibs.ErrInvalidKey},
		} {
			err := r.Do(within(t), c.name, never)
			_, try := r.TryDo(within(t), c.name, never)
			if !errors.Is(err, c.want) || !errors.Is(try, c.want) || !strings.Contains(err.Error(), b.Kind) {
				t.Errorf("%q: %v, %v", c.name, err, try)
			}
			if c.want == dibs.ErrInvalidKey {
				if err := r.Register(within(t), "fine", c.name); !errors.Is(err, c.want) {
					t.Errorf("registering %q: %v", c.name, err)
				}
			}
		}
		if n := b.number(t, "SELECT COUNT(*) FROM dibs_rows"); n != 3 {
			t.Errorf("%d rows", n)
		}
		if err := r.Do(within(t), "a", never, MaxWait(-1)); err == nil || !strings.Contains(err.Error(), "MaxWait") {
			t.Error(err)
		}
		for _, n := range []int{0, -1, 1025, 1_000_000} {
			_, err := r.Shard("a", n, "x")
			if err == nil || !strings.Contains(err.Error(), "1 to 1024") || r.RegisterShards(within(t), "a", n) == nil {
				t.Errorf("%d shards: %v", n, err)
			}
		}
		if _, err := r.Shard(strings.Repeat("x", 254), 5, "x"); !errors.Is(err, dibs.ErrInvalidKey) {
			t.Error(err)
		}
		b.nothingLeft(t, db)

		small := b.pool(t, "")
		small.SetMaxOpenConns(1)
		closed := b.pool(t, "")
		closed.Close()
		five := b.pool(t, "")
		five.SetMaxOpenConns(5)
		other := sql.OpenDB(otherDriver{})
		defer other.Close()
		bare := newBed(t, b.Server, false)
		for _, c := range []struct {
			what string
			db   *sql.DB
			cfg  *RowsConfig
			says string
		}{
			{"no database", nil, nil, "nil *sql.DB"},
			{"a pool of one", small, nil, "SetMaxOpenConns"},
			{"more than the pool has", five, &RowsConfig{MaxConns: 6}, "SetMaxOpenConns"},
			{"one connection", db, &RowsConfig{MaxConns: 1}, "MaxConns"},
			{"a negative number", db, &RowsConfig{MaxConns: -1}, "MaxConns"},
			{"a bad prefix", db, &RowsConfig{TablePrefix: "X"}, "lower-case"},
			{"a closed pool", closed, nil, "closed"},
			{"another database", other, nil, "otherDriver"},
			{"autocommit off", b.pool(t, "autocommit=0"), nil, "autocommit=0"},
			{"no table", bare.pool(t, ""), nil, "dibs init"},
			{"no server", opened(t, "u:secret@tcp("+nobody(t)+")/db"), nil, "host and port"},
			{"a wrong password", opened(t, b.App.User+":secret@tcp("+b.Addr+")/"+b.database), nil, "password"},
		} {
			r, err := NewRows(within(t), c.db, c.cfg)
			if r != nil || err == nil || !errors.Is(err, dibsdriver.ErrUnavailable) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v, which does not say %q", c.what, err, c.says)
			}
			if c.db != nil && c.db.Stats().InUse != 0 {
				t.Errorf("%s: a connection is in use", c.what)
			}
		}
		for change, says := range map[string]string{
			"ALTER TABLE dibs_rows ENGINE=MyISAM":                            "InnoDB",
			"ALTER TABLE dibs_rows MODIFY name VARCHAR(255) NOT NULL":        "VARBINARY(255)",
			"ALTER TABLE dibs_rows DROP KEY name":                            "unique",
			"ALTER TABLE dibs_rows DROP PRIMARY KEY, ADD PRIMARY KEY (name)": "primary key",
			"ALTER TABLE dibs_rows DROP COLUMN turns":                        "turns",
		} {
			b := newBed(t, b.Server, true)
			b.must(t, b.admin, change)
			if _, err := NewRows(within(t), b.pool(t, ""), nil); !errors.Is(err, dibsdriver.ErrRefused) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", change, err)
			}
		}
	})
}

// nobody is an address that nobody listens at.
func nobody(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestRowsRegister: ten processes register the same names and others of their own, while rows are locked; each name has one row, whose number stays.
func TestRowsRegister(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		b.rows(t, "")
		unlock := b.lockedElsewhere(t, "a")
		a := b.number(t, "SELECT id FROM dibs_rows WHERE name = 'a'")
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				r, err := NewRows(within(t), b.pool(t, ""), nil)
				if err != nil {
					t.Error(err)
					return
				}
				if err := r.Register(within(t), "c", "new1", fmt.Sprint("own", i), "new2", "a", "new1"); err != nil {
					t.Error(err)
				}
				if err := r.RegisterShards(within(t), "hot", 16); err != nil {
					t.Error(err)
				}
				if err := r.Do(within(t), fmt.Sprint("own", i), set(1, 1)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		unlock()
		if n := b.number(t, "SELECT COUNT(*) FROM dibs_rows"); n != 3+10+2+16 {
			t.Errorf("%d rows", n)
		}
		if n := b.number(t, "SELECT MAX(id) FROM dibs_rows"); n != 3+10+2+16 {
			t.Errorf("the highest number is %d", n)
		}
		if n := b.number(t, "SELECT id FROM dibs_rows WHERE name = 'a'"); n != a {
			t.Errorf("number %d, then %d", a, n)
		}
		// A name that another process has registered since.
		r := b.rows(t, "")
		if err := b.rows(t, "").Register(within(t), "late"); err != nil {
			t.Fatal(err)
		}
		if err := r.Do(within(t), "late", set(1, 1)); err != nil {
			t.Error(err)
		}
		// And one that somebody has deleted: nothing is locked, and nobody waits.
		b.must(t, b.admin, "DELETE FROM dibs_rows WHERE name = 'late'")
		if err := r.Do(within(t), "late", set(1, 1)); !errors.Is(err, ErrNotRegistered) {
			t.Error(err)
		}
	})
}

// TestRowsShard: the shards of a name are locks of their own, found alike by everybody, and all are used.
func TestRowsShard(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		r := b.rows(t, "")
		if err := r.RegisterShards(within(t), "hot", 8); err != nil {
			t.Fatal(err)
		}
		seen := make(map[string]bool)
		for i := range 200 {
			shard, err := r.Shard("hot", 8, fmt.Sprint("customer", i))
			if err != nil || shard != dibs.Shard("hot", 8, fmt.Sprint("customer", i)) {
				t.Fatal(shard, err)
			}
			seen[shard] = true
		}
		if len(seen) != 8 {
			t.Errorf("%d shards are used", len(seen))
		}
		holding(t, r, "hot/3")
		if ran, err := r.TryDo(within(t), "hot/3", set(1, 1)); ran || err != nil {
			t.Error(ran, err)
		}
		if ran, err := r.TryDo(within(t), "hot/4", set(1, 1)); !ran || err != nil {
			t.Error(ran, err)
		}
	})
}

// TestRowsNested: a work that asks for its own row is told so at once; one of another name, or a context whose work is over, is no such case.
func TestRowsNested(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bed) {
		r := b.rows(t, "")
		var leaked context.Context
		err := r.Do(within(t), "a", func(ctx context.Context, tx *sql.Tx) error {
			leaked = context.WithoutCancel(ctx)
			began := time.Now()
			if err := r.Do(ctx, "a", set(1, 1)); !errors.Is(err, dibs.ErrHeld) {
				t.Error(err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("it took %s", took)
			}
			return r.Do(ctx, "b", func(ctx context.Context, tx *sql.Tx) error {
				if err := r.Do(ctx, "a", set(1, 1)); !errors.Is(err, dibs.ErrHeld) {
					t.Error(err)
				}
				return set(2, 5)(ctx, tx)
			})
		})
		if err != nil || b.stock(t, 2) != 5 {
			t.Error(err)
		}
		if err := r.Do(leaked, "a", set(1, 1)); err != nil {
			t.Error(err)
		}
	})
}
