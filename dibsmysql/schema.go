package dibsmysql

import (
	"context"
	"database/sql"
	"strings"

	"github.com/dibs-go/dibs/dibsdriver"
)

// schemaVersion is what the tables' dibs_meta says. Releases of dibs that are one minor apart share them.
const schemaVersion = 1

// Schema returns the DDL of the tables, for those who create them by their own tools. It may be run again: what is there stays. It is several statements with comments, for the
// mysql client or a migration tool; a *sql.DB takes it at once only with multiStatements=true in its DSN. With a TablePrefix that is not valid it is that of the default one.
func Schema(cfg *Config) string {
	prefix, err := cfg.prefix()
	if err != nil {
		prefix = "dibs_"
	}
	return strings.ReplaceAll(schemaSQL, "dibs_", prefix)
}

// CreateTables runs [Schema]. It needs the right CREATE, which nothing else here does, and nothing else calls it. Many processes may do so at once.
func (d *Driver) CreateTables(ctx context.Context) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.calls.Done()
	ddl := comment().ReplaceAllString(Schema(&Config{TablePrefix: d.prefix}), "")
	for statement := range strings.SplitSeq(ddl, ";") {
		if statement = strings.TrimSpace(statement); statement == "" {
			continue
		}
		err := d.send(ctx, request{doing: "create the tables", take: d.take, reads: true}, func(conn *sql.Conn) error {
			_, err := conn.ExecContext(ctx, statement)
			if code(err) == 1050 { // another process was quicker
				return nil
			}
			if code(err) == 1142 && !strings.HasPrefix(statement, "CREATE") {
				return dibsdriver.NotApplied(refused("dibs: %s: this user may create tables but not fill them; give it SELECT, INSERT, UPDATE and DELETE as well, and run this again: %w",
					d.name(), err))
			}
			if code(err) == 1142 {
				return dibsdriver.NotApplied(refused("dibs: %s: this user may not create tables; let somebody run the DDL who may (dibs init --print): %w", d.name(), err))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	_, err := d.check(ctx)
	return err
}
