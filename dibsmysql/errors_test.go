package dibsmysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/go-sql-driver/mysql"
)

func serverError(number uint16) error { return &mysql.MySQLError{Number: number, Message: "made up"} }

// TestFates: an error says that nothing was applied only where that is known.
func TestFates(t *testing.T) {
	for _, c := range []struct {
		err  error
		want dibsdriver.Fate
	}{
		{driver.ErrBadConn, dibsdriver.FateNotApplied},
		{mysql.ErrInvalidConn, dibsdriver.FateUnknown},
		{context.DeadlineExceeded, dibsdriver.FateUnknown},
		{context.Canceled, dibsdriver.FateUnknown},
		{io.ErrUnexpectedEOF, dibsdriver.FateUnknown},
		{errors.New("something else"), dibsdriver.FateUnknown},
		{serverError(1205), dibsdriver.FateNotApplied},
		{serverError(1213), dibsdriver.FateNotApplied},
		{serverError(1317), dibsdriver.FateNotApplied},
		{serverError(1290), dibsdriver.FateNotApplied},
		{serverError(1047), dibsdriver.FateNotApplied}, // a node that is cut off
		{serverError(1146), dibsdriver.FateNotApplied},
		{fmt.Errorf("wrapped: %w", serverError(1142)), dibsdriver.FateNotApplied},
		{serverError(1180), dibsdriver.FateUnknown}, // at the commit
		{serverError(1053), dibsdriver.FateUnknown}, // shutdown
		{serverError(1105), dibsdriver.FateUnknown}, // proxies
		{serverError(2013), dibsdriver.FateUnknown},
		{serverError(9001), dibsdriver.FateUnknown},
	} {
		if got := fate(c.err); got != c.want {
			t.Errorf("%v: fate %v, want %v", c.err, got, c.want)
		}
	}
}

// TestExplained: each error is ErrUnavailable, whatever else it is, and keeps its cause.
func TestExplained(t *testing.T) {
	d := New(nil, nil)
	for number, want := range map[uint16]error{
		1290: dibsdriver.ErrReadOnly, 1792: dibsdriver.ErrReadOnly, 1836: dibsdriver.ErrReadOnly,
		1045: dibsdriver.ErrRefused, 1044: dibsdriver.ErrRefused, 1049: dibsdriver.ErrRefused, 1046: dibsdriver.ErrRefused, 1146: dibsdriver.ErrRefused,
		1142: dibsdriver.ErrRefused, 1048: dibsdriver.ErrRefused, 1054: dibsdriver.ErrRefused, 1064: dibsdriver.ErrRefused, 1665: dibsdriver.ErrRefused,
		1040: dibsdriver.ErrUnavailable, 1114: dibsdriver.ErrUnavailable, 1205: dibsdriver.ErrUnavailable, 1213: dibsdriver.ErrUnavailable,
		1317: dibsdriver.ErrUnavailable, 1047: dibsdriver.ErrUnavailable, 4999: dibsdriver.ErrUnavailable,
	} {
		err := d.fail("acquire", serverError(number))
		cause, ok := errors.AsType[*mysql.MySQLError](err)
		if !errors.Is(err, want) || !errors.Is(err, dibsdriver.ErrUnavailable) || !ok || cause.Number != number || !strings.HasPrefix(err.Error(), "dibs: mysql: acquire: ") {
			t.Errorf("%d: %v", number, err)
		}
		if (want == dibsdriver.ErrRefused) != errors.Is(err, dibsdriver.ErrRefused) {
			t.Errorf("%d: %v", number, err)
		}
	}
}

// otherDriver is a database of another kind.
type otherDriver struct{}

func (otherDriver) Open(string) (driver.Conn, error)               { return otherConn{}, nil }
func (o otherDriver) Connect(context.Context) (driver.Conn, error) { return o.Open("") }
func (o otherDriver) Driver() driver.Driver                        { return o }

type otherConn struct{}

func (otherConn) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("near \"VERSION\": syntax error")
}
func (otherConn) Close() error              { return nil }
func (otherConn) Begin() (driver.Tx, error) { return nil, errors.New("no") }

// TestOtherDatabase: a *sql.DB that does not lead to MySQL is refused, with its driver's name.
func TestOtherDatabase(t *testing.T) {
	db := sql.OpenDB(otherDriver{})
	defer db.Close()
	isRefused(t, drive(t, db), "otherDriver")
}

// TestClosed: after Close every call says so, and applied nothing; the *sql.DB is closed by its owner alone.
func TestClosed(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		db := b.pool(t, "")
		d := New(db, nil)
		owner, _ := take(t, d, "k", time.Minute)
		for range 2 {
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
		_, acquire := d.Acquire(within(t), params("x", time.Minute))
		_, renew := d.Renew(within(t), []dibsdriver.Renewal{{Key: "k", Owner: owner, TTL: time.Minute}})
		for _, err := range []error{acquire, renew, d.Release(within(t), dibsdriver.ReleaseParams{Key: "k", Owner: owner}), d.Ping(within(t))} {
			if !errors.Is(err, dibsdriver.ErrClosed) || dibsdriver.FateOf(err) != dibsdriver.FateNotApplied {
				t.Error(err)
			}
		}
		if err := db.Ping(); err != nil {
			t.Error(err)
		}
		db.Close()
		late := drive(t, db)
		if _, err := late.Acquire(within(t), params("x", time.Minute)); !errors.Is(err, dibsdriver.ErrUnavailable) || !strings.Contains(err.Error(), "closed before") {
			t.Error(err)
		}
	})
}

// TestServerIsNamed: before the first contact errors name the server that was asked, as the configuration does, and only once.
func TestServerIsNamed(t *testing.T) {
	const server = "db.example.com:3306/app"
	d := New(opened(t, "u:hunter2@tcp(127.0.0.1:1)/app"), &Config{Server: server})
	defer d.Close()
	l, err := dibs.New(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Shutdown(context.Background())
	_, _, acquire := l.TryAcquire(t.Context(), "k")
	for _, err := range []error{l.Ping(t.Context()), acquire} {
		if !errors.Is(err, dibs.ErrUnavailable) || strings.Count(err.Error(), "mysql:"+server+": ") != 1 || strings.Count(err.Error(), "mysql") != 1 || strings.Contains(err.Error(), "hunter2") {
			t.Error(err)
		}
	}
	wantFinding(t, d.Examine(t.Context()), checkConnection, dibsdriver.LevelFault, "cannot be reached")
}
