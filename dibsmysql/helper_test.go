package dibsmysql

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-go/dibs"
)

// The test binary is also its own helper process, which can be killed and frozen.
const helperRole = "DIBS_MYSQL_TEST_ROLE"

type helper struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startHelper(t testing.TB, role string, args ...string) *helper {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), helperRole+"="+role)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &helper{cmd, in, bufio.NewScanner(out)}
	t.Cleanup(h.kill)
	return h
}

func (h *helper) kill() {
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
}

func (h *helper) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := h.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func (h *helper) line(t testing.TB) string {
	t.Helper()
	if !h.out.Scan() {
		t.Fatal("the helper process ended early: ", h.out.Err())
	}
	return h.out.Text()
}

func (h *helper) tell(t testing.TB, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(h.in, line); err != nil {
		t.Fatal(err)
	}
}

func runHelper(role string) int {
	if role != "hold" { // which hears of it in its own way
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(1) // the tests are gone
		}()
	}
	db, err := sql.Open("mysql", os.Args[1])
	if err == nil && role == "sweep" {
		_, err = New(db, nil).Sweep(context.Background(), 0)
	} else if err == nil {
		var l *dibs.Locker
		if l, err = dibs.New(New(db, nil), nil); err == nil {
			switch role {
			case "hold":
				err = holdHelper(db, l)
			case "transfer":
				err = transferHelper(db, l)
			}
		}
	}
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	return 0
}

// what names an error for the other side of a pipe.
func what(err error) string {
	switch {
	case err == nil:
		return "committed"
	case errors.Is(err, dibs.ErrLost):
		return "lost"
	case errors.Is(err, dibs.ErrReleased):
		return "released"
	}
	return err.Error()
}

// holdHelper takes key k and does its work in a transaction that is fenced by it: reads, waits for a word, writes, and says how it ended. It does not
// look at the work's context: nothing but the fence keeps it from committing.
func holdHelper(db *sql.DB, l *dibs.Locker) error {
	ctx := context.Background()
	ttl, err := time.ParseDuration(os.Args[2])
	if err != nil {
		return err
	}
	words := bufio.NewScanner(os.Stdin)
	lock, _, err := l.Acquire(ctx, "k", dibs.TTL(ttl))
	if err != nil {
		return err
	}
	in := InTx
	if os.Args[3] == "release" {
		in = InTxAndRelease
	}
	err = in(ctx, db, lock, func(tx *sql.Tx) error {
		var n int
		if err := tx.QueryRow("SELECT n FROM work WHERE id = 1").Scan(&n); err != nil {
			return err
		}
		fmt.Println("read")
		words.Scan()
		_, err := tx.Exec("UPDATE work SET n = ? WHERE id = 1", n+1)
		return err
	})
	fmt.Println(what(err))
	words.Scan()
	return nil
}

const (
	accounts = 5
	aTurn    = 5 // transfers under one lock
)

// transferHelper moves money between accounts until it is killed, as careless programs do: it reads both balances, computes, and writes what it has
// computed. Nothing but the lock keeps others out meanwhile, and nothing but the fence, if there is one, keeps it from committing when its lock has
// passed on.
func transferHelper(db *sql.DB, l *dibs.Locker) error {
	ctx := context.Background()
	ttl, err := time.ParseDuration(os.Args[2])
	if err != nil {
		return err
	}
	fenced, err := strconv.ParseBool(os.Args[3])
	if err != nil {
		return err
	}
	for {
		lock, _, err := l.Acquire(ctx, "accounts", dibs.TTL(ttl))
		if errors.Is(err, dibs.ErrUnavailable) { // somebody was frozen with the row, or we were
			continue
		}
		if err != nil {
			return err
		}
		for range aTurn {
			if err := transferOne(ctx, db, lock, fenced); errors.Is(err, dibs.ErrLost) {
				fmt.Println("refused")
				break
			}
		}
		_ = lock.Release()
	}
}

func transferOne(ctx context.Context, db *sql.DB, lock *dibs.Lock, fenced bool) error {
	from, to, amount := rand.IntN(accounts), rand.IntN(accounts-1), 1+rand.IntN(50)
	if to >= from {
		to++
	}
	var has, gets int
	if err := db.QueryRow("SELECT n FROM work WHERE id = ?", from).Scan(&has); err != nil {
		return err
	}
	if err := db.QueryRow("SELECT n FROM work WHERE id = ?", to).Scan(&gets); err != nil {
		return err
	}
	time.Sleep(rand.N(8 * time.Millisecond)) // it thinks
	write := func(tx *sql.Tx) error {
		if _, err := tx.Exec("UPDATE work SET n = ? WHERE id = ?", has-amount, from); err != nil {
			return err
		}
		if _, err := tx.Exec("UPDATE work SET n = ? WHERE id = ?", gets+amount, to); err != nil {
			return err
		}
		_, err := tx.Exec("INSERT INTO journal (account_from, account_to, amount) VALUES (?, ?, ?)", from, to, amount)
		return err
	}
	if fenced {
		return InTx(ctx, db, lock, write)
	}
	return unfenced(db, write)
}

func unfenced(db *sql.DB, write func(*sql.Tx) error) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	if err := write(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
