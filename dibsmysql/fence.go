package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/fencing"
)

// Tx is a transaction to be fenced: a *sql.Tx, a *sqlx.Tx, the ConnPool of a gorm transaction, ent's, or a *sql.Conn on which a transaction was begun.
type Tx interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Fence checks, within a business transaction, that the lock still stands, and locks the row of its lease until the transaction ends. Call it last, then
// commit, if it returned nil; otherwise roll back. [InTx] does all of that, and more. A savepoint that was made before the fence must not be rolled back to after it, nor
// may a framework do so for a nested transaction: the server gives the row's lock up with it, and nothing is fenced any more.
//
// After Fence has returned nil, the transaction commits while the lease is still this lock's, or not at all: whoever wants the key waits for the row,
// and so does [dibs.Lock.Release] (within its RequestTimeout; then it goes on in the background). Renewals pass the row by. What Fence alone cannot
// see is when the commit is over; so commit at once, and release after that. If the process freezes in between, the key passes on when the server
// ends the session, by wait_timeout (8 hours by default: set it in the DSN), or MariaDB's idle_transaction_timeout.
//
// The transaction has to be on the server that keeps the lock, in whatever database, by a user with SELECT and UPDATE on the lease table. Begin it at
// READ COMMITTED. At REPEATABLE READ and SERIALIZABLE on MariaDB with innodb_snapshot_isolation (the default from 11.6 on) a row that was changed
// after the transaction's first read cannot be locked, so that a fence would fail as soon as the lease was renewed: there, Fence renews it first, and
// so fails always and not sometimes. Any other level will do.
//
// Where rows are locked on one node only (Galera, Group Replication with several primaries), the lock and the transaction have to be on one node; Fence refuses what
// it can tell from host name, port and server_id. It also writes the row there, so that the commit fails if the lease has passed on at another node.
//
// Errors: [dibs.ErrLost], if the lease is not this lock's any more; [dibs.ErrReleased], if it was released, or lock is nil; [dibs.ErrMaxHold];
// [dibs.ErrUnavailable], if the server could not say; ErrRefused of package dibsdriver (which is ErrUnavailable as well) for what will not work the
// next time either: a handle that is no transaction, a transaction that has ended or was committed by DDL, a lock on another store or server, a
// snapshot level. The causes are there for errors.As.
//
// It may be called concurrently for different transactions. A second lock can be fenced in the same transaction.
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
	if err := d.fence(ctx, tx, l); err != nil {
		return err
	}
	return d.within(ctx, tx)
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
		return l, nil, refused("dibs: mysql: fencing a transaction by the lock of %q: its store is of another kind (%T); a transaction can only be "+
			"fenced by a lock that is kept in the same database server", lock.Key(), l.Driver)
	}
	return l, d, nil
}

// fence locks the row and looks at it.
func (d *Driver) fence(ctx context.Context, tx Tx, l fencing.Lease) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.calls.Done()
	p, err := d.whereabouts(ctx)
	if err != nil {
		return err
	}
	if p.snapshots {
		if err := d.provoke(ctx, tx, l); err != nil {
			return err
		}
	}
	var r row
	var at node
	var within sql.NullBool
	var mark string
	search := newMark()
	err = tx.QueryRowContext(ctx, d.q.fence.with(p.within, p.database, literal(l.Key), search)).
		Scan(&r.token, &r.owner, &r.open, &r.left, &at.host, &at.port, &at.id, &within, &mark)
	if err != nil {
		if fate(err) == dibsdriver.FateUnknown && !errors.Is(err, sql.ErrNoRows) && !errors.Is(err, sql.ErrTxDone) {
			d.ghosts.abandon(d, search) // it may still wait for the row, and its transaction would keep what it has locked
		}
		return d.notFenced(ctx, tx, l, p, err)
	}
	if at != p.node {
		return d.elsewhere(ctx, l, at)
	}
	switch {
	case within.Valid && !within.Bool:
		return d.noTransaction(nil)
	case r.owner.String != l.Owner || l.Token < r.token || l.Token >= r.token+dibsdriver.TokenStep:
		return d.lost(l, "the lease has passed on")
	case r.left <= 0:
		return d.lost(l, "the lease has expired")
	case !r.open:
		return d.lost(l, "the lease was broken")
	}
	if !p.certified {
		return nil
	}
	var none int
	if err := tx.QueryRowContext(ctx, d.q.touch.with(p.database, literal(l.Key))).Scan(&none); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return d.notFenced(ctx, tx, l, p, err)
	}
	return nil
}

func (d *Driver) lost(l fencing.Lease, what string) error {
	return named(fmt.Errorf("dibs: %s: key %q, token %d: %s; the transaction must not commit: roll it back",
		d.name(), l.Key, l.Token, what), dibsdriver.ErrLost)
}

// notFenced says why the row could not be had.
func (d *Driver) notFenced(ctx context.Context, tx Tx, l fencing.Lease, p *whereabouts, err error) error {
	switch code(err) {
	case 1020:
		return refused("dibs: %s: key %q: the transaction reads a snapshot that is older than the last renewal of the lease, and this server "+
			"(innodb_snapshot_isolation) then locks no row; begin it at READ COMMITTED (sql.TxOptions{Isolation: sql.LevelReadCommitted}), or use "+
			"InTx; the server has rolled it back: %w", d.name(), l.Key, err)
	case 1213:
		return named(fmt.Errorf("dibs: %s: key %q: fencing the transaction met a deadlock, and the server has rolled it back; do it again: %w",
			d.name(), l.Key, err), dibsdriver.ErrUnavailable)
	case 1792:
		return refused("dibs: %s: key %q: the transaction is READ ONLY, and can lock no row; begin it without that: %w", d.name(), l.Key, err)
	}
	switch {
	case errors.Is(err, sql.ErrTxDone):
		return refused("dibs: %s: key %q: the transaction has ended before it was fenced: %w", d.name(), l.Key, withCause(ctx, err))
	case errors.Is(err, sql.ErrNoRows), slices.Contains([]uint16{1146, 1142, 1044, 1049, 1193}, code(err)):
		var at node
		if tx.QueryRowContext(ctx, "SELECT @@hostname, @@port, @@server_id").Scan(&at.host, &at.port, &at.id) == nil && p != nil && at != p.node {
			return d.elsewhere(ctx, l, at)
		}
		if errors.Is(err, sql.ErrNoRows) {
			return d.lost(l, "the row of its lease is gone")
		}
	}
	return d.fail("fence a transaction by the lock of \""+l.Key+"\"", withCause(ctx, err))
}

// elsewhere refuses a transaction on another server. What the driver knows may be older than a failover.
func (d *Driver) elsewhere(ctx context.Context, l fencing.Lease, at node) error {
	d.where.Store(nil)
	p, err := d.whereabouts(ctx)
	if err != nil {
		return err
	}
	if p.node == at {
		return named(fmt.Errorf("dibs: %s: key %q: the connection to the server has moved to %s; roll the transaction back and do it again",
			d.name(), l.Key, at), dibsdriver.ErrUnavailable)
	}
	return refused("dibs: %s: key %q: the transaction is on another server (%s) than the lock (%s): locking a row there fences nothing; "+
		"keep the lock in the database server of the data that it protects", d.name(), l.Key, at, p.node)
}

// within makes sure, after the row was locked, that it still is: outside a transaction its lock has ended with the statement. MariaDB has said so
// itself. On MySQL a savepoint that was just made is there only within a transaction.
func (d *Driver) within(ctx context.Context, tx Tx) error {
	if p := d.where.Load(); p != nil && p.within != noAnswer {
		return nil
	}
	for _, statement := range []string{"SAVEPOINT dibs_fence", "RELEASE SAVEPOINT dibs_fence"} {
		var none int
		switch err := tx.QueryRowContext(ctx, statement).Scan(&none); {
		case code(err) == 1305:
			return d.noTransaction(err)
		case err != nil && !errors.Is(err, sql.ErrNoRows):
			return d.fail("fence a transaction", withCause(ctx, err))
		}
	}
	return nil
}

func (d *Driver) noTransaction(err error) error {
	const format = "dibs: %s: there is no transaction under way on this connection: none was begun, or a statement in it (DDL, LOCK TABLES, BEGIN) " +
		"has committed it; what was done before has taken effect without the fence"
	if err == nil {
		return refused(format, d.name())
	}
	return refused(format+": %w", d.name(), err)
}

// provoke changes the lease's row, on another connection, where the server would let a transaction with an older snapshot fail.
func (d *Driver) provoke(ctx context.Context, tx Tx, l fencing.Lease) error {
	var on bool
	if err := tx.QueryRowContext(ctx, "SELECT @@SESSION.innodb_snapshot_isolation").Scan(&on); err != nil || !on {
		return nil // what is wrong with the transaction, the fence will say
	}
	// If the row is locked (by this transaction, which was fenced by the lock before), nobody can say, and the fence decides.
	if err := l.Verify(ctx); err != nil && !errors.Is(err, dibsdriver.ErrUnavailable) && ctx.Err() == nil {
		return fmt.Errorf("dibs: %s: key %q: the transaction must not commit: %w", d.name(), l.Key, err)
	}
	return nil
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
