package dibsmysql

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/dibs-go/dibs/dibsdriver"
)

// server is what the driver has to know of the server and of its tables.
type server struct {
	name       string // for errors
	database   string
	schema     string // the database, as SQL; with DATABASE() instead, information_schema would open all that there are
	skipLocked bool
	statements bool  // the binary log has statements, in which a question for a named lock would be unsafe
	floor      int64 // no token of a row that was deleted is higher
}

// name is the store as errors call it.
func (d *Driver) name() string {
	if s := d.server.Load(); s != nil {
		return s.name
	}
	return d.called
}

// ensure checks, once, whether the server and the tables are as they must be. Its errors are for callers.
func (d *Driver) ensure(ctx context.Context) (*server, error) {
	if s := d.server.Load(); s != nil {
		return s, nil
	}
	select {
	case <-d.setup:
		defer func() { d.setup <- struct{}{} }()
	case <-ctx.Done():
		return nil, dibsdriver.NotApplied(d.fail("check the tables", ctx.Err()))
	}
	if s := d.server.Load(); s != nil {
		return s, nil
	}
	s, err := d.check(ctx)
	if err != nil {
		return nil, err
	}
	d.server.Store(s)
	return s, nil
}

func (d *Driver) check(ctx context.Context) (*server, error) {
	var s *server
	err := d.send(ctx, request{doing: "check the tables", take: d.take, reads: true}, func(conn *sql.Conn) (err error) {
		if s, err = d.checkServer(ctx, conn); err != nil {
			return err
		}
		if s.statements, err = logsStatements(ctx, conn); err != nil {
			return err
		}
		if s.floor, err = d.checkVersion(ctx, conn); err != nil {
			return err
		}
		return d.checkTables(ctx, conn, s)
	})
	return s, err
}

const serverSQL = "SELECT VERSION(), @@version_comment, @@hostname, @@port, DATABASE(), @@autocommit, @@read_only"

func (d *Driver) checkServer(ctx context.Context, conn *sql.Conn) (*server, error) {
	s, _, problems, err := d.lookAtServer(ctx, conn)
	switch {
	case err != nil:
		return nil, err
	case len(problems) > 0:
		return nil, problems[0].err
	}
	return s, nil
}

// problem is something because of which locks cannot work.
type problem struct {
	check string // what was looked at, in the doctor's words
	err   error  // for callers
}

// lookAtServer also returns the server's own words for its version.
func (d *Driver) lookAtServer(ctx context.Context, conn *sql.Conn) (s *server, version string, problems []problem, err error) {
	var about, host, port, readOnly string
	var database sql.NullString
	var autocommit bool
	err = conn.QueryRowContext(ctx, serverSQL).Scan(&version, &about, &host, &port, &database, &autocommit, &readOnly)
	if err != nil {
		if what, _ := d.explain(err); what == "the request failed" {
			// It is not the server's error, nor one of the network.
			err = refused("dibs: mysql: the *sql.DB (driver %T) does not lead to MySQL or MariaDB; open it with github.com/go-sql-driver/mysql: %w",
				d.db.Driver(), err)
		}
		return nil, "", nil, err
	}
	kind := "mysql"
	if strings.Contains(version, "MariaDB") {
		kind = "mariadb"
	}
	s = &server{
		name: kind + ":" + net.JoinHostPort(host, port) + "/" + database.String, database: database.String, schema: "CONVERT(" + literal(database.String) + " USING utf8mb4)",
		skipLocked: skipsLocked(version, about),
	}
	bad := func(check string, err error) { problems = append(problems, problem{check, err}) }
	if !database.Valid {
		bad(checkDatabase, refused("dibs: %s: the DSN names no database; add one (user:password@tcp(host)/DATABASE)", s.name))
	}
	if !autocommit {
		bad(checkAutocommit, refused("dibs: %s: autocommit is off: nobody else would see a lock; take autocommit=0 out of the DSN", s.name))
	}
	if readOnly != "0" && !strings.EqualFold(readOnly, "off") {
		bad(checkWrites, named(fmt.Errorf("dibs: %s: the server takes no writes (read_only is on: it is a replica, or in maintenance); "+
			"connect to the one that does, or set read_only off", s.name), dibsdriver.ErrReadOnly, dibsdriver.ErrUnavailable))
	}
	return s, version, problems, nil
}

// logsStatements tells whether the server replicates by statements. The variables are not there on every server.
func logsStatements(ctx context.Context, conn *sql.Conn) (bool, error) {
	settings := make(map[string]string)
	err := eachRow(ctx, conn, "SHOW VARIABLES WHERE Variable_name IN ('log_bin', 'binlog_format')", func(rows *sql.Rows) error {
		var name, value string
		err := rows.Scan(&name, &value)
		settings[strings.ToLower(name)] = strings.ToUpper(value)
		return err
	})
	return settings["log_bin"] == "ON" && settings["binlog_format"] == "STATEMENT", err
}

var versionPattern = lazily(`(\d+)\.(\d+)\.(\d+)`)

// skipsLocked: MySQL from 8.0.1 on, MariaDB from 10.6 on. TiDB understands it and does not do it.
func skipsLocked(version, about string) bool {
	if strings.Contains(version+about, "TiDB") {
		return false
	}
	all := versionPattern().FindAllStringSubmatch(version, -1)
	if len(all) == 0 {
		return false
	}
	// Old clients wanted MariaDB to say 5.5.5-10.6.1-MariaDB.
	v := all[0]
	if len(all) > 1 && v[0] == "5.5.5" {
		v = all[1]
	}
	n := 0
	for _, part := range v[1:] {
		i, err := strconv.Atoi(part)
		if err != nil {
			return false
		}
		n = n*1000 + i
	}
	if strings.Contains(version, "MariaDB") {
		return n >= 10_006_000
	}
	return n >= 8_000_001
}
