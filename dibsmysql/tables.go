package dibsmysql

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"strings"

	"github.com/dibs-go/dibs/dibsdriver"
)

// checkVersion returns the token floor of tables that this release of dibs can use.
func (d *Driver) checkVersion(ctx context.Context, conn *sql.Conn) (floor int64, err error) {
	version := int64(-1)
	err = eachRow(ctx, conn, "SELECT name, value FROM "+d.prefix+"meta", func(rows *sql.Rows) error {
		var name string
		var value int64
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		switch name {
		case "schema_version":
			version = value
		case "token_floor":
			floor = value
		}
		return nil
	})
	switch {
	case err != nil:
		return 0, err
	case version < 0:
		return 0, refused("dibs: table %smeta has no schema_version; run dibs init", d.prefix)
	case version > schemaVersion:
		return 0, refused("dibs: the tables are of schema version %d, and this release of dibs knows %d; update dibs here", version, schemaVersion)
	case floor > dibsdriver.MaxToken-dibsdriver.TokenStep:
		return 0, d.tooHigh("", floor)
	}
	return floor, nil
}

// column is what a column must be, and why, for the errors.
type column struct {
	types     []string
	atLeast   int64 // bytes or characters
	precision int64
	key       bool
	why       string
}

var leaseColumns = map[string]column{
	"lock_key": {types: []string{"varbinary"}, atLeast: 255, key: true, why: "as text, keys would compare by a collation, and different keys could be one lock"},
	"fence":    {types: []string{"bigint"}, why: "fencing tokens need 64 bits"},
	"owner":    {types: []string{"varbinary"}, atLeast: dibsdriver.OwnerLen, why: "owners compare as bytes"},
	"expires":  {types: []string{"datetime"}, precision: 6, why: "the server would round times, or read them in a time zone"},
	"since":    {types: []string{"datetime"}, precision: 6, why: "the server would round times, or read them in a time zone"},
	"is_open":  {types: []string{"tinyint"}, why: "it is a flag"},
	"holder":   {types: []string{"varchar", "text"}, atLeast: 255, why: "it names the holder"},
	"note":     {types: []string{"varchar", "text"}, atLeast: 1024, why: "notes may have 1024 bytes"},
}

// checkTables finds what would break locks silently, or only later.
func (d *Driver) checkTables(ctx context.Context, conn *sql.Conn, s *server) error {
	problems, err := d.lookAtTables(ctx, conn, s)
	if err != nil || len(problems) == 0 {
		return err
	}
	return problems[0]
}

// lookAtTables returns all that is wrong with the table of leases.
func (d *Driver) lookAtTables(ctx context.Context, conn *sql.Conn, s *server) (problems []error, err error) {
	table := d.prefix + "leases"
	bad := func(format string, args ...any) {
		problems = append(problems, refused("dibs: "+s.name+": table "+table+": "+format+"; compare it with dibs init --print", args...))
	}
	missing := make(map[string]column, len(leaseColumns))
	for name, c := range leaseColumns {
		missing[name] = c
	}
	err = eachRow(ctx, conn, "SELECT c.column_name, c.data_type, COALESCE(c.character_maximum_length, 0), COALESCE(c.datetime_precision, 0), "+
		"c.column_key, c.extra, t.engine FROM information_schema.columns AS c JOIN information_schema.tables AS t "+
		"ON t.table_schema = c.table_schema AND t.table_name = c.table_name WHERE c.table_schema = "+s.schema+" AND c.table_name = '"+table+"'",
		func(rows *sql.Rows) error {
			var name, kind, key, extra string
			var engine sql.NullString
			var length, precision int64
			if err := rows.Scan(&name, &kind, &length, &precision, &key, &extra, &engine); err != nil {
				return err
			}
			want, ours := missing[name]
			delete(missing, name)
			switch {
			case !strings.EqualFold(engine.String, "InnoDB"):
				bad("its engine is %s, and has to be InnoDB, which locks rows", engine.String)
			case strings.Contains(strings.ToLower(extra), "auto_increment"):
				bad("column %s is AUTO_INCREMENT, and its value would take the place of the fencing token", name)
			case !ours && key == "PRI", ours && want.key != (key == "PRI"):
				bad("its primary key has to be lock_key alone")
			case ours && !contains(want.types, kind):
				bad("column %s is %s, and has to be %s: %s", name, kind, want.types[0], want.why)
			case ours && kind != "text" && length < want.atLeast:
				bad("column %s has a length of %d, and has to have %d", name, length, want.atLeast)
			case ours && want.precision > precision:
				bad("column %s is DATETIME(%d), and has to be DATETIME(%d): %s", name, precision, want.precision, want.why)
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	if len(missing) == len(leaseColumns) {
		bad("it is not there, or this user has no right to it; create it with dibs init, and grant SELECT, INSERT, UPDATE and DELETE")
		return problems, nil
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		bad("column %s is missing", name)
	}
	return problems, nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if strings.EqualFold(x, s) {
			return true
		}
	}
	return false
}
