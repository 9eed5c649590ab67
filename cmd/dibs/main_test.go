//go:build linux

package main_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	// The tests run the binary that they build. Through this import the go command knows that it is part of them, and does
	// not answer from its cache when it has changed.
	_ "github.com/dibs-go/dibs/cmd/dibs/internal/cli"
	"github.com/dibs-go/dibs/internal/testenv"
)

var (
	// binary is dibs itself, built once.
	binary string
	// systemFile stands in for /etc/dibs/store.
	systemFile string
)

func TestMain(m *testing.M) {
	if os.Getenv(helperVar) != "" && len(os.Args) > 1 {
		os.Exit(helper(os.Args[1:]))
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set("test.parallel", "8") // they mostly wait for leases to end
	}
	os.Exit(withBinary(m))
}

func withBinary(m *testing.M) int {
	dir, err := os.MkdirTemp("", "dibs-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary, systemFile = filepath.Join(dir, "dibs"), filepath.Join(dir, "etc-dibs-store")
	args := []string{"build", "-o", binary, "-ldflags", "-X github.com/dibs-go/dibs/cmd/dibs/internal/storeurl.systemFile=" + systemFile}
	if os.Getenv("DIBS_TEST_RACE") != "" {
		args = append(args, "-race") // SQLite is many times slower by it, and some of the contract's times cannot be kept
	}
	build := exec.Command("go", append(args, ".")...)
	if os.Getenv("DIBS_TEST_RACE") == "" {
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is shipped: with cgo each start takes longer
	}
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building dibs:", err)
		return 1
	}
	return testenv.Main(m)
}

// The guard's start must not wait for what the drivers of all stores initialize: it is on the way of every command.
func TestGuardStartsBeforeTheDrivers(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(binary)
	cmd.Args[0] = "dibs-guard" // without what else a guard is told, so it ends at once
	cmd.Env = []string{"GODEBUG=inittrace=1"}
	out, _ := cmd.CombinedOutput()
	if !strings.Contains(string(out), "arguments are missing") || !strings.Contains(string(out), "\ninit os ") {
		t.Fatalf("this is no trace of a guard: %s", out)
	}
	for _, late := range []string{"reflect", "database/sql", "net", "crypto/tls", "modernc.org/sqlite", "github.com/go-sql-driver/mysql", "github.com/spf13/pflag"} {
		if strings.Contains(string(out), "\ninit "+late+" ") {
			t.Errorf("the guard waits for %s", late)
		}
	}
}
