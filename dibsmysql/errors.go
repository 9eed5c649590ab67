package dibsmysql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/go-sql-driver/mysql"
)

// code is the number of the server's error, 0 if err is not the server's.
func code(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

// again tells whether the same statement may work in a moment: a deadlock, a row that stayed locked, a snapshot that was too old. A statement that failed so has
// had no effect.
func again(err error) bool {
	switch code(err) {
	case 1213, 1205, 1020:
		return true
	}
	return false
}

func readOnly(err error) bool {
	switch code(err) {
	case 1290, 1792, 1836:
		return true
	}
	return false
}

// errRejected is what becomes of a read-only server's refusal under rejectReadOnly=true in the DSN: go-sql-driver closes the connection then, and says ErrBadConn.
var errRejected = errors.New("the server is read-only, and the DSN has rejectReadOnly=true")

// rejectsWrites tells whether that is why new connections break as well.
func (d *Driver) rejectsWrites(ctx context.Context) bool {
	s, err := d.takeSpare(ctx)
	if err != nil {
		return false
	}
	var none int
	const statement = "SELECT 1 FROM DUAL WHERE CAST(@@GLOBAL.read_only AS CHAR) NOT IN ('0', 'OFF') OR CAST(@@GLOBAL.innodb_read_only AS CHAR) NOT IN ('0', 'OFF')"
	err = s.conn.QueryRowContext(ctx, statement).Scan(&none)
	s.put(err != nil && !errors.Is(err, sql.ErrNoRows))
	return err == nil
}

// leave tells whether the next connection may lead to a server that does what this one refuses: one that takes no writes may have been the primary when it was
// connected to, and a node that was cut off from its cluster (1047) lets its clients stay.
func leave(err error) bool { return readOnly(err) || code(err) == 1047 }

// fate is what may have become of a statement that was sent, and ended with err.
func fate(err error) dibsdriver.Fate {
	switch n := code(err); {
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, errRejected): // by definition nothing was sent
		return dibsdriver.FateNotApplied
	case n == 0:
		return dibsdriver.FateUnknown
	// What may end a statement after its commit, what proxies use to report a lost server, and what proxies made up.
	case n == 1053, n == 1105, n == 1180, n == 2006, n == 2013, n >= 9000:
		return dibsdriver.FateUnknown
	}
	return dibsdriver.FateNotApplied
}

// fail makes the error that callers see: on which server, while doing what, what happened, what to do, and the names for errors.Is.
func (d *Driver) fail(doing string, err error) error {
	if errors.Is(err, dibsdriver.ErrRefused) || errors.Is(err, dibsdriver.ErrClosed) || errors.Is(err, dibsdriver.ErrUnavailable) {
		return err // says all that already
	}
	what, names := d.explain(err)
	return dibsdriver.Failed(d.name(), doing, what, err, names...)
}

// refused is an error that waiting does not mend. It reads as a sentence, without the names that it matches.
func refused(format string, args ...any) error {
	return named(fmt.Errorf(format, args...), dibsdriver.ErrRefused, dibsdriver.ErrUnavailable)
}

func named(err error, names ...error) error { return dibsdriver.Named(err, names...) }

var (
	unavailableNames = []error{dibsdriver.ErrUnavailable}
	refusedNames     = []error{dibsdriver.ErrRefused, dibsdriver.ErrUnavailable}
	readOnlyNames    = []error{dibsdriver.ErrReadOnly, dibsdriver.ErrUnavailable}
)

func (d *Driver) explain(err error) (what string, names []error) {
	if n := code(err); n != 0 {
		return d.explainCode(n)
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the server's certificate is for another name; connect by a name that is in it", refusedNames
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the server's certificate is not trusted; let tls= in the DSN name a configuration that trusts it (mysql.RegisterTLSConfig)", refusedNames
	}
	switch op, isNet := errors.AsType[*net.OpError](err); {
	case errors.Is(err, errRejected):
		return d.explainCode(1290)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "the context ended first", unavailableNames
	case isNet && op.Op == "dial":
		return "the server cannot be reached; look at host and port in the DSN, and whether the server runs", unavailableNames
	case errors.Is(err, mysql.ErrNoTLS):
		return "the server offers no TLS; turn it on there, or take tls= out of the DSN", refusedNames
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, mysql.ErrInvalidConn), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), isNet:
		return "the connection broke", unavailableNames
	case strings.Contains(err.Error(), "sql: database is closed"):
		return "the *sql.DB was closed before the driver; close the Locker and its driver first", unavailableNames
	case errors.Is(err, mysql.ErrPktTooLarge):
		return "the statement is longer than the client library allows; raise maxAllowedPacket in the DSN", refusedNames
	}
	return "the request failed", unavailableNames
}

func (d *Driver) explainCode(n uint16) (what string, names []error) {
	switch n {
	case 1213, 1205, 1020:
		return "another transaction kept the row locked until the context ended; look for a long transaction on " + d.prefix + "leases (SHOW ENGINE INNODB STATUS)",
			unavailableNames
	case 1290, 1792, 1836:
		return "the server takes no writes (it is a replica, or in maintenance); connect to the one that does, or set read_only off", readOnlyNames
	case 1047:
		return "the server takes no statements: a node of a Galera cluster that is cut off from the majority, or has not joined; connect to one that has", unavailableNames
	case 1045, 1698, 1251, 1524, 1820, 1862:
		return "the server does not accept this user; look at user and password in the DSN", refusedNames
	case 1044, 1049:
		return "the database is not there, or this user may not use it; look at its name in the DSN, create it, or grant the rights", refusedNames
	case 1046:
		return "the DSN names no database; add one (user:password@tcp(host)/DATABASE)", refusedNames
	case 1146:
		return "the tables are not there; create them once with dibs init, or with the DDL of dibs init --print", refusedNames
	case 1142, 1143, 1370:
		return "this user lacks a right; dibs needs SELECT, INSERT, UPDATE and DELETE on " + d.prefix + "leases and " + d.prefix + "meta", refusedNames
	case 1048:
		return "autocommit is off on this connection: nobody else would see the lock; take autocommit=0 out of the DSN", refusedNames
	case 1193:
		return "a parameter in the DSN is neither the client library's nor a variable of this server; look at its spelling", refusedNames
	case 1054, 1136, 1364, 1406, 1366, 1265, 1264:
		return "a table of this name has other columns than dibs needs; compare it with dibs init --print, or choose another Config.TablePrefix", refusedNames
	case 1064, 1305:
		return "this server does not understand the statement; dibs needs MySQL 8.0, MariaDB 10.6 or later", refusedNames
	case 1040, 1203, 1226, 1129:
		return "the server has no connection left for this user", unavailableNames
	case 1114, 1021, 1030:
		return "the server's disk or table space is full, or failed", unavailableNames
	case 1317, 1053, 1927, 4031, 3024, 1969:
		return "the server ended the statement", unavailableNames
	case 1665:
		return "the server's binlog_format is STATEMENT, with which this isolation level cannot write; set it to ROW or MIXED", refusedNames
	}
	return "the server refused the statement", unavailableNames
}
