package dibs_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsmem"
)

// newLocker stands for what a program does at its start. A real one takes another store instead of dibsmem: on MySQL or MariaDB the *sql.DB that it has,
//
//	db, err := sql.Open("mysql", "app:password@tcp(db.example.com)/app")
//	locker, err := dibs.New(dibsmysql.New(db, nil), nil)
//
// whose tables are made once (dibs init), and without a server a file:
//
//	store, err := dibssqlite.Open("/var/lib/app/locks.db", nil)
//	locker, err := dibs.New(store, nil)
func newLocker() *dibs.Locker {
	locker, err := dibs.New(dibsmem.New(), nil)
	if err != nil {
		panic(err)
	}
	return locker
}

func ExampleLocker_Do() {
	locker := newLocker()
	defer locker.Shutdown(context.Background())

	err := locker.Do(context.Background(), "invoice-42", func(ctx context.Context) error {
		fmt.Println("nobody else works on invoice 42")
		return ctx.Err() // the work's context ends if the lock is lost
	})
	fmt.Println(err)
	// Output:
	// nobody else works on invoice 42
	// <nil>
}

// A job that every instance starts, and one of them runs. The min hold keeps the key taken when the job was quick, so that an instance
// whose clock is behind does not run it again.
func ExampleLocker_TryDo() {
	locker := newLocker()
	defer locker.Shutdown(context.Background())

	for range 3 {
		ran, err := locker.TryDo(context.Background(), "nightly", func(context.Context) error {
			fmt.Println("working")
			return nil
		}, dibs.MinHold(time.Minute))
		fmt.Println(ran, err)
	}
	// Output:
	// working
	// true <nil>
	// false <nil>
	// false <nil>
}

func ExampleLocker_Acquire() {
	locker := newLocker()
	defer locker.Shutdown(context.Background())

	work := func(ctx context.Context) (err error) {
		lock, ctx, err := locker.Acquire(ctx, "stock/sku1", dibs.MaxWait(3*time.Second))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, lock.Release()) }()

		fmt.Println(lock.Key(), ctx.Err(), lock.Err())
		return nil
	}
	fmt.Println(work(context.Background()))
	// Output:
	// stock/sku1 <nil> <nil>
	// <nil>
}

func ExampleBusyError() {
	locker := newLocker()
	defer locker.Shutdown(context.Background())

	lock, _, _ := locker.Acquire(context.Background(), "import", dibs.Note("full import"))
	defer lock.Release()

	_, _, err := locker.TryAcquire(context.Background(), "import")
	if busy, ok := errors.AsType[*dibs.BusyError](err); ok {
		fmt.Println(busy.Key, "is held for:", busy.Holder.Note)
	}
	fmt.Println(errors.Is(err, dibs.ErrBusy))
	// Output:
	// import is held for: full import
	// true
}

func ExampleValue() {
	locker := newLocker()
	defer locker.Shutdown(context.Background())

	n, err := dibs.Value(context.Background(), locker, "counter", func(context.Context) (int, error) { return 7, nil })
	fmt.Println(n, err)
	// Output: 7 <nil>
}

// A unit test of code that loses its lock.
func ExampleLock_Err() {
	store := dibsmem.New()
	locker, _ := dibs.New(store, &dibs.Config{TTL: 300 * time.Millisecond})
	defer locker.Shutdown(context.Background())

	err := locker.Do(context.Background(), "k", func(ctx context.Context) error {
		store.Expire("k")
		<-ctx.Done()
		fmt.Println(errors.Is(context.Cause(ctx), dibs.ErrLost))
		return nil
	})
	fmt.Println(errors.Is(err, dibs.ErrLost))
	// Output:
	// true
	// true
}
