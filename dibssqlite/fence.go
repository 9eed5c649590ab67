package dibssqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/fencing"
	sqlite3 "modernc.org/sqlite/lib"
)

// Tx is a transaction to be fenced: a *sql.Tx, a *sqlx.Tx, the ConnPool of a gorm transaction, ent's, or a *sql.Conn on which a transaction was begun.
type Tx interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Fence checks, within a business transaction, that the lock still stands. Call it last, then commit, if it returned nil; otherwise roll back. [InTx]
// does all of that, and more.
//
// The transaction has to be on the file that keeps the lock, and to have the file's write lock: begun with BEGIN IMMEDIATE (_txlock=immediate in the
// DSN), or with a write as its first statement. So nobody else can take the key over, or release it, before the transaction has ended; nor can leases
// of that file be renewed: it must be shorter than their trust windows. One that has only read so far is refused: it could not write any more as soon
// as anything else in the file was changed, be it by a renewal, so that it would fail in production what it passes in tests.
//
// Errors: [dibs.ErrLost], if the lease is not this lock's any more; [dibs.ErrReleased], if it was released, or lock is nil; [dibs.ErrMaxHold];
// [dibs.ErrUnavailable], if the file is locked by others; ErrRefused of package dibsdriver (which is ErrUnavailable as well) for what will not work
// the next time either: a handle that is no transaction, one without the write lock, one that has ended, a lock on another store or file. The causes
// are there for errors.As.
//
// It may be called concurrently. A second lock can be fenced in the same transaction.
func Fence(ctx context.Context, tx Tx, lock *dibs.Lock) error {
	l, d, err := pin(lock)
	if err != nil {
		return err
	}
	defer l.Unpin()
	l.Unseen()
	if why := fencing.NoTransaction(tx); why != "" {
		return refused("dibs: %s: %s", d.name(), why)
	}
	return d.fence(ctx, tx, l, true)
}

// pin holds the lock's section open; the caller unpins it.
func pin(lock *dibs.Lock) (fencing.Lease, *Driver, error) {
	l, err := fencing.Pin(lock)
	if err != nil {
		return l, nil, fmt.Errorf("fencing a transaction by the lock of %q: %w", lock.Key(), err)
	}
	d, ok := l.Driver.(*Driver)
	if !ok {
		l.Unpin()
		return l, nil, refused("dibs: sqlite: fencing a transaction by the lock of %q: its store is of another kind (%T); a transaction can only be "+
			"fenced by a lock that is kept in the same file", lock.Key(), l.Driver)
	}
	return l, d, nil
}

// fence looks at the lease from within tx. probe is for transactions of which we do not know how they began.
func (d *Driver) fence(ctx context.Context, tx Tx, l fencing.Lease, probe bool) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.calls.Done()
	if err := d.ensure(ctx); err != nil {
		return d.fail("open", err)
	}
	if probe && d.prober.writeLockIsFree(ctx, d) {
		if err := d.sameFile(ctx, tx, l); err != nil {
			return err
		}
		return d.noWriteLock(l, nil)
	}
	var expires int64
	if err := tx.QueryRowContext(ctx, d.q.fence, []byte(l.Key), l.Owner, l.Token).Scan(&expires); err != nil {
		return d.notFenced(ctx, tx, l, err)
	}
	if err := d.sameFile(ctx, tx, l); err != nil {
		return err
	}
	if probe && d.prober.committed(ctx, d, l.Key, expires) {
		return d.noWriteLock(l, nil)
	}
	return nil
}

func (d *Driver) failed(ctx context.Context, l fencing.Lease, err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return refused("dibs: %s: key %q: the transaction has ended before it was fenced: %w", d.name(), l.Key, withCause(ctx, err))
	}
	return d.fail(fmt.Sprintf("fence a transaction by the lock of %q", l.Key), withCause(ctx, err))
}

func (d *Driver) lost(l fencing.Lease, what string) error {
	return named(fmt.Errorf("dibs: %s: key %q, token %d: %s; the transaction must not commit: roll it back",
		d.name(), l.Key, l.Token, what), dibsdriver.ErrLost)
}

func (d *Driver) noWriteLock(l fencing.Lease, err error) error {
	const format = "dibs: %s: key %q: what is to be fenced does not have the file's write lock: it is no transaction, or has only read so far, and " +
		"could not write after the next renewal of a lease; begin it with BEGIN IMMEDIATE (_txlock=immediate in the DSN), or use InTx"
	if err == nil {
		return refused(format, d.name(), l.Key)
	}
	return refused(format+": %w", d.name(), l.Key, err)
}

// notFenced says why the lease was not found, or could not be looked at.
func (d *Driver) notFenced(ctx context.Context, tx Tx, l fencing.Lease, err error) error {
	switch {
	case extendedCode(err) == sqlite3.SQLITE_BUSY_SNAPSHOT:
		return d.noWriteLock(l, err)
	case noTable(err), errors.Is(err, sql.ErrNoRows):
		if err := d.sameFile(ctx, tx, l); err != nil {
			return err
		}
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return d.failed(ctx, l, err)
	}
	var owner sql.NullString
	var token, left int64
	var open bool
	err = tx.QueryRowContext(ctx, d.q.fenced, []byte(l.Key)).Scan(&owner, &token, &left, &open)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return d.lost(l, "the row of its lease is gone")
	case err != nil:
		return d.failed(ctx, l, err)
	case owner.String != l.Owner || l.Token < token || l.Token >= token+dibsdriver.TokenStep:
		return d.lost(l, "the lease has passed on")
	case left <= 0:
		return d.lost(l, "the lease has expired")
	}
	return d.lost(l, "the lease was broken")
}

// sameFile refuses a transaction on another file.
func (d *Driver) sameFile(ctx context.Context, tx Tx, l fencing.Lease) error {
	var path string
	if err := tx.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&path); err != nil {
		return d.failed(ctx, l, err)
	}
	ours := d.filePath()
	if path == ours {
		return nil
	}
	a, errA := os.Stat(path)
	b, errB := os.Stat(ours)
	if errA == nil && errB == nil && os.SameFile(a, b) {
		return nil
	}
	return refused("dibs: %s: key %q: the transaction is on another file (%q) than the lock (%q): it can fence nothing there; keep the lock in the "+
		"file of the data that it protects (dibssqlite.New, or Open with its path)", d.name(), l.Key, path, ours)
}

// filePath is known once the tables have been looked at.
func (d *Driver) filePath() string {
	if file := d.file.Load(); file != nil {
		return *file
	}
	return d.path
}

// withCause adds why the context ended, if it did.
func withCause(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	for _, why := range []error{ctx.Err(), context.Cause(ctx)} {
		if !errors.Is(err, why) {
			err = errors.Join(err, why)
		}
	}
	return err
}
