package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dibs-go/dibs"
)

// ErrNotRegistered: there is no row of this name to lock. Call [Rows.Register] once for each name, when the application starts or in a migration.
var ErrNotRegistered = errors.New("dibs: row lock is not registered")

const rowsBatch = 500

// Register makes a row for each name that has none yet. Names are 1 to 255 bytes of valid UTF-8 (else dibs.ErrInvalidKey), and differ if their
// bytes do. Many processes may register the same names at once, also while the rows are locked. Rows stay for good: locks are meant for a
// fixed set of names, not for one per order or customer; see [Rows.Shard]. Errors are dibs.ErrUnavailable, and dibs.ErrReadOnly with it.
func (r *Rows) Register(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := r.checkName(name); err != nil {
			return err
		}
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	for batch := range slices.Chunk(names, rowsBatch) {
		if err := r.register(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rows) checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("dibs: %s: %w: the name of a row lock is empty", r.d.name(), dibs.ErrInvalidKey)
	case len(name) > 255:
		return fmt.Errorf("dibs: %s: %w: a row lock's name has %d bytes, at most 255 are possible; it begins %.60q", r.d.name(), dibs.ErrInvalidKey, len(name), name)
	case !utf8.ValidString(name):
		return fmt.Errorf("dibs: %s: %w: %q is not valid UTF-8", r.d.name(), dibs.ErrInvalidKey, name)
	}
	return nil
}

// register looks which rows are there, without a lock, and inserts the others with the next numbers: two processes that do so at once want
// the same numbers, and the second looks again. An AUTO_INCREMENT would use up a number for each such try.
func (r *Rows) register(ctx context.Context, names []string) error {
	for tries := 1; ; tries++ {
		if err := r.load(ctx, names); err != nil {
			return err
		}
		var missing []string
		r.mu.Lock()
		for _, name := range names {
			if _, ok := r.ids[name]; !ok {
				missing = append(missing, name)
			}
		}
		r.mu.Unlock()
		if len(missing) == 0 {
			return nil
		}
		err := r.insert(ctx, missing)
		if err != nil && (code(err) != 1062 || !pause(ctx, tries)) {
			return err
		}
	}
}

func (r *Rows) insert(ctx context.Context, names []string) error {
	doing := fmt.Sprintf("register row lock %q", names[0])
	// It may be sent twice: what is there by then is found by the next look.
	return r.d.send(ctx, request{doing: doing, take: r.take, reads: true}, func(conn *sql.Conn) error {
		var last int64
		if err := conn.QueryRowContext(ctx, "SELECT COALESCE(MAX(id), 0) FROM "+r.table).Scan(&last); err != nil {
			return err
		}
		values := make([]string, len(names))
		for i, name := range names {
			values[i] = "(" + number(last+1+int64(i)) + ", " + literal(name) + ")"
		}
		_, err := conn.ExecContext(ctx, "INSERT INTO "+r.table+" (id, name) VALUES "+strings.Join(values, ", "))
		if lacksRight(err) {
			return r.fail(doing, err)
		}
		return err
	})
}

// load reads the numbers of these names, or of all.
func (r *Rows) load(ctx context.Context, names []string) error {
	query := "SELECT id, name FROM " + r.table
	if names != nil {
		literals := make([]string, len(names))
		for i, name := range names {
			literals[i] = literal(name)
		}
		query += " WHERE name IN (" + strings.Join(literals, ", ") + ")"
	}
	found := make(map[string]int64)
	err := r.d.send(ctx, request{doing: "read the names of row locks", take: r.take, reads: true}, func(conn *sql.Conn) error {
		clear(found)
		err := eachRow(ctx, conn, query, func(rows *sql.Rows) error {
			var id int64
			var name string
			err := rows.Scan(&id, &name)
			found[name] = id
			return err
		})
		if lacksRight(err) {
			return r.fail("read the names of row locks", err)
		}
		return err
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names { // a row may have been deleted, by hand
		delete(r.ids, name)
	}
	for name, id := range found {
		r.ids[name] = id
	}
	return nil
}

// id is the number of a row. A name that is not known may have been registered by another process.
func (r *Rows) id(ctx context.Context, name string) (int64, error) {
	if err := r.checkName(name); err != nil {
		return 0, err
	}
	known := func() (int64, bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		id, ok := r.ids[name]
		return id, ok
	}
	if id, ok := known(); ok {
		return id, nil
	}
	if err := r.load(ctx, []string{name}); err != nil {
		return 0, err
	}
	if id, ok := known(); ok {
		return id, nil
	}
	return 0, r.notRegistered(name)
}

func (r *Rows) notRegistered(name string) error {
	r.mu.Lock()
	delete(r.ids, name)
	r.mu.Unlock()
	return fmt.Errorf("dibs: %s: %w: %q has no row in %s; call Register(ctx, %q) once, before Do", r.d.name(), ErrNotRegistered, name, r.table, name)
}
