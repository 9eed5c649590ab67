package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dibs-go/dibs/dibsdriver"
)

// schema looks at the table that says which tables these are.
func (x *examination) schema(ctx context.Context, conn *sql.Conn) error {
	floor, err := x.d.checkVersion(ctx, conn)
	switch {
	case err == nil:
		x.OK(checkTables, "%smeta: schema version %d, token floor %d", x.d.prefix, schemaVersion, floor)
	case code(err) == 1146, code(err) == 1142, code(err) == 1143:
		x.failed(checkTables, x.d.fail(examining, err))
	default:
		return err
	}
	return nil
}

// tables finds what Ping refuses, all at once.
func (x *examination) tables(ctx context.Context, conn *sql.Conn) error {
	problems, err := x.d.lookAtTables(ctx, conn, x.server)
	if err != nil {
		return err
	}
	for _, p := range problems {
		x.failed(checkTables, p)
	}
	if len(problems) == 0 {
		x.OK(checkTables, "%sleases: its columns, their types, engine and primary key are as they have to be", x.d.prefix)
	}
	return nil
}

// columns finds what does not break locks by itself: characters that cannot be stored, and columns of others.
func (x *examination) columns(ctx context.Context, conn *sql.Conn) error {
	texts, known := []string(nil), 0
	err := eachRow(ctx, conn, "SELECT column_name, is_nullable, column_default, extra, character_set_name FROM information_schema.columns WHERE table_schema = "+
		x.server.schema+" AND table_name = '"+x.d.prefix+"leases' ORDER BY ordinal_position",
		func(rows *sql.Rows) error {
			var name, nullable, extra string
			var fallback, charset sql.NullString
			if err := rows.Scan(&name, &nullable, &fallback, &extra, &charset); err != nil {
				return err
			}
			want, ours := leaseColumns[name]
			generated := strings.Contains(strings.ToLower(extra), "generated") || strings.Contains(strings.ToLower(extra), "auto_increment")
			switch {
			case !ours && nullable == "NO" && !fallback.Valid && !generated:
				x.Fault(checkTables, "give it a default, let it be NULL, or drop it", "%sleases: column %s is not dibs' and has no default, so no row can be added", x.d.prefix, name)
			case !ours:
				x.Warn(checkTables, "keep what is yours in a table of yours", "%sleases: column %s is not dibs'", x.d.prefix, name)
			case contains(want.types, "varchar"):
				known++
				if !strings.EqualFold(charset.String, "utf8mb4") {
					texts = append(texts, fmt.Sprintf("%s has %s", name, charset.String))
				}
			}
			return nil
		})
	switch {
	case err != nil:
		return err
	case len(texts) > 0:
		x.Warn(checkTables, "ALTER TABLE "+x.d.prefix+"leases CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "%sleases: of the columns for people to read, %s and not utf8mb4: "+
			"a lock whose holder or note has other characters is refused, or shown wrongly", x.d.prefix, strings.Join(texts, ", "))
	case known > 0:
		x.OK(checkTables, "%sleases: keys and owners are bytes, so no collation makes two keys one; holder and note are utf8mb4", x.d.prefix)
	}
	return nil
}

// indexes: the table needs none but its primary key.
func (x *examination) indexes(ctx context.Context, conn *sql.Conn) error {
	table, columns, unique := x.d.prefix+"leases", make(map[string][]string), make(map[string]bool)
	err := eachRow(ctx, conn, "SELECT index_name, column_name, non_unique FROM information_schema.statistics WHERE table_schema = "+x.server.schema+
		" AND table_name = '"+table+"' AND index_name <> 'PRIMARY' ORDER BY index_name, seq_in_index",
		func(rows *sql.Rows) error {
			var index string
			var column sql.NullString // an expression has none
			var many bool
			if err := rows.Scan(&index, &column, &many); err != nil {
				return err
			}
			columns[index] = append(columns[index], strings.ToLower(column.String))
			unique[index] = !many
			return nil
		})
	if err != nil {
		return err
	}
	for _, index := range slices.Sorted(maps.Keys(columns)) {
		drop := "ALTER TABLE " + table + " DROP INDEX `" + strings.ReplaceAll(index, "`", "``") + "`"
		switch {
		case unique[index]:
			x.Fault(checkTables, drop, "%s: index %s is unique: a key whose row is like another's there would be taken for that one", table, index)
		case slices.Contains(columns[index], "expires"):
			x.Warn(checkTables, drop, "%s: index %s has expires in it: each acquisition and renewal has to move it, and who deletes rows by it makes acquisitions deadlock", table, index)
		default:
			x.Warn(checkTables, drop, "%s: index %s is not dibs', and makes writes slower", table, index)
		}
	}
	return nil
}

// rights tries each right, without changing or locking a row.
func (x *examination) rights(ctx context.Context, conn *sql.Conn) error {
	missing := 0
	for _, right := range slices.Concat([]string{"SELECT lock_key FROM %[1]sleases WHERE lock_key = X''", "SELECT value FROM %[1]smeta WHERE name = ''"}, rights) {
		_, err := conn.ExecContext(ctx, fmt.Sprintf(right, x.d.prefix))
		switch n := code(err); {
		case err == nil:
		case lacksRight(err), n == 1044:
			missing++
			x.Fault(checkRights, fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %[1]s.%[2]sleases TO this user, and the same ON %[1]s.%[2]smeta", x.server.database, x.d.prefix), "%s", err)
		case readOnly(err): // has been said
			x.Warn(checkRights, "look again when the server takes writes", "they cannot be tried while the server takes no writes")
			return nil
		case n == 1146, n == 1054, n == 1364, n == 1136: // so have the tables
			return nil
		default:
			return err
		}
	}
	if missing == 0 {
		x.OK(checkRights, "SELECT, INSERT, UPDATE and DELETE, as far as they are needed")
	}
	return nil
}

// rows looks at the table that only those need who use row locks.
func (x *examination) rows(ctx context.Context, conn *sql.Conn) error {
	r := &Rows{d: x.d, table: x.d.prefix + "rows"}
	var there int
	err := conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = "+x.server.schema+" AND table_name = '"+r.table+"'").Scan(&there)
	switch {
	case err != nil:
		return err
	case there == 0:
		x.OK(checkRows, "table %s is not there, or this user has no right to it; only those who use row locks need it", r.table)
		return nil
	}
	if err := r.checkTable(ctx, conn, x.server); err != nil {
		if !errors.Is(err, dibsdriver.ErrRefused) {
			return err
		}
		x.failed(checkRows, err)
		return nil
	}
	err = r.checkRights(ctx, conn)
	switch {
	case errors.Is(err, dibsdriver.ErrRefused):
		x.Warn(checkRows, "GRANT SELECT, INSERT, UPDATE ON "+r.table+" to those who use row locks", "this user has not all rights that they need on %s", r.table)
	case readOnly(err):
		x.OK(checkRows, "table %s is as it has to be", r.table)
	case err != nil:
		return err
	default:
		x.OK(checkRows, "table %s is as it has to be", r.table)
	}
	return nil
}
