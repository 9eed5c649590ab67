// Command fencing shows what a fencing token is for.
//
// A lease ends when its holder is frozen, cut off or declared dead, and someone else takes the key. The old holder may
// not know yet: it can be stopped between any two of its instructions, also between looking at its lock and writing. So the
// last word is the resource's: it remembers the highest token it has seen and refuses lower ones.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibssqlite"
)

// Stock is the resource. In a database this is one statement:
//
//	UPDATE stock SET n = ?, token = ? WHERE id = ? AND token <= ?
type Stock struct {
	mu    sync.Mutex
	n     int
	token int64 // the highest so far
}

// Set changes the stock, unless somebody with a higher token has been here.
func (s *Stock) Set(n int, token int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token < s.token {
		return errors.New("stale token: somebody else has taken over")
	}
	s.n, s.token = n, token
	return nil
}

func main() {
	dir, err := os.MkdirTemp("", "fencing")
	if err == nil {
		err = run(context.Background(), filepath.Join(dir, "locks.db"), os.Stdout)
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fencing:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path string, out io.Writer) (err error) {
	var stock Stock
	// Two Lockers are as two processes.
	first, err := open(path, "first")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, first.Shutdown(ctx)) }()
	second, err := open(path, "second")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, second.Shutdown(ctx)) }()

	old, _, err := first.Acquire(ctx, "stock")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "first has the lock, and is frozen before it writes")

	// An operator finds out who it is, and takes it for dead.
	infos, err := second.Locks(ctx, "stock")
	if err != nil {
		return err
	}
	for _, i := range infos {
		fmt.Fprintf(out, "the operator breaks %q of %s\n", i.Key, i.Holder)
		if _, err := second.BreakNow(ctx, i.Key, i.Token); err != nil {
			return err
		}
	}

	err = second.Do(ctx, "stock", func(ctx context.Context) error {
		lock, _ := dibs.FromContext(ctx, "stock")
		if lock.Token() <= old.Token() {
			return errors.New("the second token is not the higher one")
		}
		fmt.Fprintln(out, "second has the lock, and writes")
		return stock.Set(41, lock.Token())
	})
	if err != nil {
		return err
	}

	// The first wakes up, and does not look at its lock any more: it had looked just before.
	fmt.Fprintln(out, "first writes:", stock.Set(42, old.Token()))
	if err := old.Release(); !errors.Is(err, dibs.ErrLost) {
		return fmt.Errorf("a broken lock was released with %v, not with ErrLost", err)
	}
	fmt.Fprintln(out, "first finds out on release that its lock was lost")
	fmt.Fprintln(out, "stock:", stock.n)
	return nil
}

func open(path, name string) (*dibs.Locker, error) {
	store, err := dibssqlite.Open(path, nil)
	if err != nil {
		return nil, err
	}
	return dibs.New(store, &dibs.Config{Name: name})
}
