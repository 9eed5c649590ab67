package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/dibs-go/dibs/dibsdriver"
)

// rowStatements are the texts, with the names of the table and of the server's variables.
type rowStatements struct {
	prepare, again, lock, turn string
}

// check finds what would break row locks silently, or only later.
func (r *Rows) check(ctx context.Context) error {
	return r.d.send(ctx, request{doing: "look at the table of row locks", take: r.take, reads: true}, func(conn *sql.Conn) error {
		s, err := r.d.checkServer(ctx, conn)
		if err != nil {
			return err
		}
		r.d.server.Store(s)
		if !s.skipLocked {
			return named(fmt.Errorf("dibs: %s: row locks need MySQL 8.0.1, MariaDB 10.6 or later", s.name), dibsdriver.ErrUnsupported, dibsdriver.ErrRefused)
		}
		variables, err := readVariables(ctx, conn)
		if err != nil {
			return err
		}
		if which := multiPrimary(variables); which != "" && !r.multi {
			return named(fmt.Errorf("dibs: %s: this is a node of %s, where row locks hold on one node only: connect all processes to one node and set "+
				"RowsConfig.MultiPrimary, or use leases", s.name, which), dibsdriver.ErrUnsupported, dibsdriver.ErrRefused)
		}
		r.statements(variables)
		if err := r.checkTable(ctx, conn, s); err != nil {
			return err
		}
		return r.checkRights(ctx, conn)
	})
}

func readVariables(ctx context.Context, conn *sql.Conn) (map[string]string, error) {
	found := make(map[string]string)
	err := eachRow(ctx, conn, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('wsrep_on', 'group_replication_single_primary_mode', 'transaction_isolation')",
		func(rows *sql.Rows) error {
			var name, value string
			if err := rows.Scan(&name, &value); err != nil {
				return err
			}
			found[strings.ToLower(name)] = strings.ToUpper(value)
			return nil
		})
	return found, err
}

// multiPrimary names the kind of cluster in which several servers take writes, "" if the server belongs to none.
func multiPrimary(variables map[string]string) string {
	on := func(name string) (yes, known bool) {
		value, known := variables[name]
		return value == "ON" || value == "1", known
	}
	if yes, _ := on("wsrep_on"); yes {
		return "a Galera cluster"
	}
	if single, known := on("group_replication_single_primary_mode"); known && !single {
		return "Group Replication in multi-primary mode"
	}
	return ""
}

// statements makes the texts.
//
// Sessions of a pool come with whatever others have set, so each transaction sets what it needs, all in one statement, and lets go of it at its end.
// The isolation level and "read write" are those of the next transaction alone. Autocommit is off meanwhile: otherwise, if the transaction ended inside the
// work (by a deadlock, say, whose error the work ignores), each of the statements that follow would be committed at once, without the lock.
func (r *Rows) statements(variables map[string]string) {
	kind := "tx" // MariaDB before 11.1
	if _, is := variables["transaction_isolation"]; is {
		kind = "transaction"
	}
	terms := "@@" + kind + "_isolation = 'READ-COMMITTED', @@" + kind + "_read_only = 0"
	r.q = rowStatements{
		prepare: "SET @dibs_autocommit = @@autocommit, autocommit = 0, " + terms,
		again:   "SET " + terms,
		lock:    "SELECT name, CONNECTION_ID(), " + rowInstanceSQL + ", '%s' FROM " + r.table + " WHERE id = %d FOR UPDATE",
		turn:    "UPDATE " + r.table + " SET turns = turns + 1 WHERE id = %d",
	}
}

const rowRestoreSQL = "SET autocommit = COALESCE(@dibs_autocommit, 1)"

// rowInstanceSQL tells one server from another behind the same address.
const rowInstanceSQL = "CONCAT_WS('/', @@hostname, @@port, @@server_id)"

// checkTable: a table of another engine would be locked by nobody, and names that compare as text would be one lock.
func (r *Rows) checkTable(ctx context.Context, conn *sql.Conn, s *server) error {
	bad := func(format string, args ...any) error {
		return refused("dibs: "+s.name+": table "+r.table+": "+format+"; compare it with dibs init --print", args...)
	}
	var engine sql.NullString
	types := make(map[string]string)
	err := eachRow(ctx, conn, "SELECT c.column_name, c.column_type, c.column_key, t.engine FROM information_schema.columns AS c "+
		"JOIN information_schema.tables AS t ON t.table_schema = c.table_schema AND t.table_name = c.table_name "+
		"WHERE c.table_schema = "+s.schema+" AND c.table_name = '"+r.table+"'",
		func(rows *sql.Rows) error {
			var name, kind, key string
			if err := rows.Scan(&name, &kind, &key, &engine); err != nil {
				return err
			}
			kind, _, _ = strings.Cut(strings.ToLower(kind), " ")
			if strings.HasPrefix(kind, "bigint") { // with or without a width
				kind = "bigint"
			}
			types[strings.ToLower(name)] = strings.TrimSpace(kind + " " + strings.ToLower(key))
			return nil
		})
	switch {
	case err != nil:
		return err
	case len(types) == 0:
		return refused("dibs: %s: table %s is not there, or this user has no right to it; create it with dibs init, and grant SELECT, INSERT and UPDATE", s.name, r.table)
	case !strings.EqualFold(engine.String, "InnoDB"):
		return bad("its engine is %s, and has to be InnoDB, which locks rows", engine.String)
	case types["id"] != "bigint pri":
		return bad("column id is %q, and has to be BIGINT and the primary key", types["id"])
	case types["name"] != "varbinary(255) uni":
		return bad("column name is %q, and has to be VARBINARY(255) with a unique key of its own: as text, different names could be one lock", types["name"])
	case types["turns"] != "bigint":
		return bad("column turns is %q, and has to be BIGINT", types["turns"])
	}
	return nil
}

// checkRights tries what will be needed, without changing or locking a row.
func (r *Rows) checkRights(ctx context.Context, conn *sql.Conn) error {
	for _, statement := range []string{
		"INSERT INTO " + r.table + " (id, name) SELECT id, name FROM " + r.table + " WHERE id IS NULL",
		"UPDATE " + r.table + " SET turns = turns WHERE id IS NULL",
	} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			if lacksRight(err) {
				return dibsdriver.NotApplied(r.fail("look at the table of row locks", err))
			}
			return err
		}
	}
	return nil
}

func lacksRight(err error) bool {
	n := code(err)
	return n == 1142 || n == 1143 || n == 1370
}

// fail is the driver's, with what is different for row locks.
func (r *Rows) fail(doing string, err error) error {
	if errors.Is(err, dibsdriver.ErrUnavailable) || errors.Is(err, dibsdriver.ErrUnsupported) {
		return err // says all that already
	}
	say := func(what string, names []error) error {
		return named(fmt.Errorf("dibs: %s: %s: %s: %w", r.d.name(), doing, what, err), names...)
	}
	switch n := code(err); {
	case lacksRight(err):
		return say("this user lacks a right; row locks need SELECT, INSERT and UPDATE on "+r.table, refusedNames)
	case n == 1213, n == 1205, n == 1020, n == 3572:
		return say("another transaction was in the way; call Do again", unavailableNames)
	}
	return r.d.fail(doing, err)
}
