package dibsmysql

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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
	return helperIn(t, nil, role, args...)
}

// helperIn starts a helper with more in its environment.
func helperIn(t testing.TB, env []string, role string, args ...string) *helper {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), helperRole+"="+role), env...)
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
			err = holdHelper(db, l)
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
