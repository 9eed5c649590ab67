package storeurl

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/dibs-go/dibs/cmd/dibs/internal/exit"
	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/dibsmysql"
)

const (
	// pool is how many connections a command needs at most: the keeper's, and two for what else is under way.
	pool = 3
	// dialLimit bounds a connection in the making, also one that nobody waits for any more.
	dialLimit = 5 * time.Second
)

// mysqlAddress is an address, taken apart.
type mysqlAddress struct {
	user, password string
	network, addr  string // as net.Dial wants them; an empty addr is the client library's default
	database       string
	query          string // still escaped
}

// mysqlConfig reads a URL, or a DSN of go-sql-driver. What it finds wrong is told without the address: wherever an address is cut
// wrongly, the password may be in any part of it.
func mysqlConfig(scheme, address string) (cfg *mysql.Config, p mysqlParams, wrong string) {
	read := urlAddress
	if scheme == schemeDSN {
		read = dsnAddress
	}
	a, wrong := read(address)
	if wrong != "" {
		return nil, p, wrong
	}
	if p, wrong = splitParams(a.query); wrong != "" {
		return nil, p, wrong
	}
	if wrong = a.socket(p.socket); wrong != "" {
		return nil, p, wrong
	}
	if a.database == "" {
		return nil, p, "names no database: write mysql://user:password@host:port/DATABASE"
	}
	if cfg, wrong = p.config(); wrong != "" {
		return nil, p, wrong
	}
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.DBName = a.user, a.password, a.network, a.addr, a.database
	return cfg, p, ""
}

func readMySQL(s *Store) (target, error) {
	cfg, p, wrong := mysqlConfig(s.scheme, s.address)
	if wrong != "" {
		return target{}, exit.Errorf(exit.Usage, "the address of the MySQL or MariaDB server (from %s) %s", s.From, wrong)
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return target{}, exit.Errorf(exit.Usage, "the address of the MySQL or MariaDB server (from %s) does not fit together: %w", s.From, err)
	}
	tables := &dibsmysql.Config{TablePrefix: p.prefix, Server: serverName(cfg)}
	called := "mysql:" + tables.Server
	open := func() (dibsdriver.Driver, error) {
		db := sql.OpenDB(connector)
		db.SetMaxOpenConns(pool)
		db.SetMaxIdleConns(pool)
		return &withPool{dibsmysql.New(db, tables), db, cmp.Or(p.prefix, "dibs_") + "rows", called}, nil
	}
	if p.prefix != "" { // nothing but this can be wrong with the driver's own configuration
		d, _ := open()
		defer d.Close()
		if _, err := d.Limits(); err != nil {
			return target{}, exit.Errorf(exit.Usage, "the address of the MySQL or MariaDB server (from %s) has a table-prefix that cannot be used: %w", s.From, err)
		}
	}
	return target{open: open, called: called, schema: dibsmysql.Schema(tables), words: mysqlWords(s.scheme)}, nil
}

// serverName is what errors call the server that cfg leads to; nothing in it is secret.
func serverName(cfg *mysql.Config) string {
	if cfg.Net != "tcp" {
		return cfg.Net + "(" + cfg.Addr + ")/" + cfg.DBName
	}
	return cmp.Or(cfg.Addr, "127.0.0.1:3306") + "/" + cfg.DBName // as the client library has it
}

// withPool is a driver that owns its pool.
type withPool struct {
	*dibsmysql.Driver
	db     *sql.DB
	rows   string // the table of row locks
	called string // what errors call the store before the first contact
}

// Close closes the driver, and then what it works with.
func (d *withPool) Close() error { return errors.Join(d.Driver.Close(), d.db.Close()) }

// denied is the server's error for a right that is missing.
const denied = 1142

// withoutInit leaves out the advice that dibs init itself has just been following.
var withoutInit = strings.NewReplacer(
	"; create them once with dibs init, or with the DDL of dibs init --print", "",
	"create it with dibs init, and grant", "create it, and grant",
)

// Make makes the tables.
func (d *withPool) Make(ctx context.Context, unusable error) error {
	err := d.CreateTables(ctx)
	switch e, _ := errors.AsType[*mysql.MySQLError](err); {
	case err == nil:
		return d.Ping(ctx)
	case e != nil && e.Number == denied: // the tables may well be there, and another right be what is missing
		why := strings.TrimPrefix(strings.TrimPrefix(unusable.Error(), "dibs: "), d.called+": ") // err has named the store
		why = withoutInit.Replace(why)
		return dibsdriver.Named(fmt.Errorf("%w; and they cannot be used as they are: %s", err, why), unusable)
	}
	return err
}

// Complete makes the table of row locks, which no command needs. Who has no right to it does not see it either.
func (d *withPool) Complete(ctx context.Context) string {
	var n int
	err := d.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '"+d.rows+"'").Scan(&n)
	if err == nil && n == 0 {
		err = d.CreateTables(ctx)
	}
	if err == nil {
		return ""
	}
	reason := err.Error()
	if e, _ := errors.AsType[*mysql.MySQLError](err); e != nil && e.Number == denied {
		reason = "this user may not create it"
	}
	return "the table " + d.rows + ", which only programs with row locks need (dibsmysql.Rows), is not there or not this user's to see, and was not made: " + reason
}

// Clean removes old rows.
func (d *withPool) Clean(ctx context.Context, retention time.Duration) (rows int64, lag time.Duration, err error) {
	r, err := d.Sweep(ctx, retention)
	return r.Rows, r.Lag, err
}

const escapes = "if user or password have special characters, write them as %XX (@ is %40, : is %3A, / is %2F, ? is %3F, # is %23, % is %25)"

// urlAddress takes apart what comes after "mysql:".
func urlAddress(address string) (a mysqlAddress, wrong string) {
	rest, ok := strings.CutPrefix(address, "//")
	if !ok {
		return a, "is not complete: write mysql://user:password@host:port/database"
	}
	if hasBrackets(rest) { // as some tools write it: mysql://user:password@tcp(host:port)/database
		return dsnAddress(rest)
	}
	u, err := url.Parse("mysql:" + address)
	if err != nil && strings.Contains(err.Error(), "invalid port") {
		return a, wrongPort(rest)
	}
	if err != nil || u.Fragment != "" || strings.Contains(u.EscapedPath()+u.RawQuery, "@") {
		return a, "cannot be read: " + escapes
	}
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	switch n, err := strconv.Atoi(port); {
	case strings.Contains(u.Host, ","):
		return a, severalHosts
	case err != nil || n < 1 || n > 65535:
		return a, wrongPort(rest)
	}
	path := strings.TrimPrefix(u.EscapedPath(), "/")
	if strings.Contains(path, "/") {
		return a, "has a / in its database's name: write mysql://user:password@host:port/database; " + escapes
	}
	if a.database, err = url.PathUnescape(path); err != nil {
		return a, "cannot be read: " + escapes
	}
	a.user = u.User.Username()
	a.password, _ = u.User.Password()
	a.query = u.RawQuery
	if host := u.Hostname(); host != "" {
		a.network, a.addr = "tcp", net.JoinHostPort(host, port)
	}
	return a, ""
}

// wrongPort says so of what comes after "mysql://". A password can be the cause only where the user's part did not end at the @ before the host.
func wrongPort(rest string) (wrong string) {
	const none = "has a port that is none: ports are numbers from 1 to 65535"
	host := strings.IndexAny(rest, "/?#")
	if host < 0 {
		host = len(rest)
	}
	at := strings.LastIndexByte(rest, '@')
	switch {
	case at >= host:
	case strings.Contains(rest[at+1:host], ","):
		return severalHosts
	case at >= 0:
		return none
	}
	return none + "; " + escapes
}

const severalHosts = "names several hosts: name one, which leads to the server that takes writes"

// socket puts a socket's file in the place of a host.
func (a *mysqlAddress) socket(file string) (wrong string) {
	switch {
	case file == "" && a.network == "":
		return "names no host: write mysql://user:password@host:port/database, or mysql://user:password@/database?socket=/path/to/socket"
	case file == "":
		return ""
	case a.network != "":
		return "names a host and a socket: leave one of them out"
	}
	a.network, a.addr = "unix", file
	return ""
}

// mysqlWords puts what the driver tells programmers into what a user of the command can do.
func mysqlWords(scheme string) *strings.Replacer {
	address := "the store's URL"
	if scheme == schemeDSN {
		address = "the store's DSN"
	}
	return strings.NewReplacer(
		"let tls= in the DSN name a configuration that trusts it (mysql.RegisterTLSConfig)", "name the file of its authority in "+address+" by tls-ca=FILE",
		"choose another Config.TablePrefix", "choose another table-prefix= in "+address,
		"the DSN", address,
	)
}
