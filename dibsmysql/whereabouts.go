package dibsmysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// node is a server as it names itself. Neither a replica nor a server on another machine has all three alike.
type node struct {
	host, port string
	id         int64
}

func (n node) String() string { return fmt.Sprintf("%s:%s, server_id %d", n.host, n.port, n.id) }

// whereabouts are what a stranger's connection has to know to find our tables, and to know that they are ours.
type whereabouts struct {
	node
	database  string // begins a table's name
	within    string // as SQL, whether a transaction is under way; noAnswer if the server does not say
	snapshots bool   // the server may refuse to lock what was changed after a snapshot
	certified bool   // several servers take writes, each with row locks of its own; what was written in both places is undone in one
}

const noAnswer = "NULL"

func (d *Driver) whereabouts(ctx context.Context) (*whereabouts, error) {
	if p := d.where.Load(); p != nil {
		return p, nil
	}
	p := &whereabouts{within: noAnswer}
	err := d.send(ctx, request{doing: "look at the server", take: d.take, reads: true}, func(conn *sql.Conn) error {
		var database, version string
		err := conn.QueryRowContext(ctx, "SELECT @@hostname, @@port, @@server_id, DATABASE(), VERSION()").Scan(&p.host, &p.port, &p.id, &database, &version)
		if err != nil {
			return err
		}
		p.database = "`" + strings.ReplaceAll(database, "`", "``") + "`."
		variables, err := readVariables(ctx, conn)
		if err != nil {
			return err
		}
		p.certified = multiPrimary(variables) != ""
		if !strings.Contains(version, "MariaDB") {
			return nil
		}
		p.within = "@@in_transaction"
		return eachRow(ctx, conn, "SHOW VARIABLES LIKE 'innodb\\_snapshot\\_isolation'", func(rows *sql.Rows) error {
			p.snapshots = true
			var name, value string
			return rows.Scan(&name, &value)
		})
	})
	if err != nil {
		return nil, err
	}
	d.where.Store(p)
	return p, nil
}
