package testenv

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// MySQL returns the MySQL server that all tests of this process share.
func MySQL(t testing.TB) *Server {
	t.Helper()
	return shared(t, mysql, &sharedMySQL)
}

// MariaDB returns the MariaDB server that all tests of this process share.
func MariaDB(t testing.TB) *Server {
	t.Helper()
	return shared(t, mariadb, &sharedMariaDB)
}

// StartMySQL starts a MySQL server for this test alone, with more flags; it may be killed.
func StartMySQL(t testing.TB, flags ...string) *Server {
	t.Helper()
	return alone(t, mysql, flags, nil)
}

// StartMariaDB starts a MariaDB server for this test alone, with more flags; it may be killed.
func StartMariaDB(t testing.TB, flags ...string) *Server {
	t.Helper()
	return alone(t, mariadb, flags, nil)
}

var sharedMySQL, sharedMariaDB single

// single is a server that is started when it is first asked for.
type single struct {
	once   sync.Once
	server *Server
	err    error
}

func shared(t testing.TB, f *family, s *single) *Server {
	t.Helper()
	s.once.Do(func() {
		if url := os.Getenv(f.env); url != "" {
			s.server, s.err = f.given(url)
			return
		}
		s.server, s.err = f.start(nil, nil)
	})
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.server
}

func alone(t testing.TB, f *family, flags []string, also func(data string) error) *Server {
	t.Helper()
	s, err := f.start(flags, also)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		forget(s)
		if t.Failed() {
			t.Logf("the end of the server's log:\n%s", s.logTail())
		}
		s.remove()
	})
	return s
}

// family is what MySQL and MariaDB differ in.
type family struct {
	kind, env string
	find      func() (*program, error)
	fill      func(p *program, data string) error // makes an empty data folder
	flags     []string
}

// program is how a server is started.
type program struct {
	argv    []string
	flags   []string
	version string
}

func (p *program) command(flags ...string) *exec.Cmd {
	argv := append(append(append([]string{}, p.argv...), p.flags...), flags...)
	return exec.Command(argv[0], argv[1:]...)
}

// The passwords are such as no error contains for another reason.
const adminPassword, appPassword = "hunter2-of-admin", "hunter2-of-app"

// SetupSQL makes the accounts, on a server that has none yet.
func SetupSQL() []string {
	return []string{
		"CREATE USER IF NOT EXISTS 'dibs_admin'@'%' IDENTIFIED BY '" + adminPassword + "'",
		"GRANT ALL ON *.* TO 'dibs_admin'@'%' WITH GRANT OPTION",
		"CREATE USER IF NOT EXISTS 'dibs_app'@'%' IDENTIFIED BY '" + appPassword + "'",
		`GRANT SELECT, INSERT, UPDATE, DELETE ON ` + "`" + `dibs\_%` + "`" + `.* TO 'dibs_app'@'%'`,
	}
}

func (f *family) accounts(s *Server) {
	s.Admin = Account{"dibs_admin", adminPassword}
	s.App = Account{"dibs_app", appPassword}
}

// common flags: small, quick, and on this machine only. Data survive a kill of the server, which is all the tests do to it; the disk need not be waited for.
var common = []string{
	"--bind-address=127.0.0.1", "--skip-log-bin", "--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=32M",
	"--max-connections=600", "--performance-schema=OFF", "--table-open-cache=400", "--skip-name-resolve", "--innodb-doublewrite=0",
}

// start starts a server on a data folder of its own, to which also may add something.
func (f *family) start(flags []string, also func(data string) error) (*Server, error) {
	p, err := f.find()
	if err != nil {
		return nil, err
	}
	setup := strings.Join(SetupSQL(), ";\n") + ";\n"
	sum := sha256.Sum256([]byte(p.version + setup + strings.Join(f.flags, " ") + "1"))
	data, err := template(f.kind+"-"+hex.EncodeToString(sum[:6]), func(dir string) error { return f.prepare(p, dir, setup) })
	if err != nil {
		return nil, err
	}
	dir, err := tempDir(f.kind)
	if err != nil {
		return nil, err
	}
	if err := copyTree(filepath.Join(dir, "data"), data); err != nil {
		return nil, err
	}
	if also != nil {
		if err := also(filepath.Join(dir, "data")); err != nil {
			return nil, err
		}
	}
	s, err := f.server(p, dir, filepath.Join(dir, "data"), flags)
	if err != nil {
		return nil, err
	}
	remember(s)
	if err := s.Start(); err != nil {
		forget(s)
		s.remove()
		return nil, err
	}
	return s, nil
}

func (f *family) server(p *program, dir, data string, flags []string) (*Server, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	// Not /tmp: MariaDB, when it starts, removes there what another that runs has in use.
	tmp := filepath.Join(dir, "tmp")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return nil, err
	}
	s := &Server{Kind: f.kind, Addr: addr, dir: dir, ready: greeted}
	f.accounts(s)
	all := append([]string{"--datadir=" + data, "--tmpdir=" + tmp, "--port=" + port, "--socket=" + filepath.Join(dir, "s"), "--pid-file=" + filepath.Join(dir, "pid")},
		append(append(append([]string{}, common...), f.flags...), flags...)...)
	s.command = func() *exec.Cmd { return p.command(all...) }
	return s, nil
}

// prepare makes a data folder in which the accounts are, by a server that is started and stopped once: it also makes its keys and its logs then.
func (f *family) prepare(p *program, dir, setup string) error {
	if err := f.fill(p, dir); err != nil {
		return err
	}
	work, err := tempDir(f.kind)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	script := filepath.Join(work, "setup.sql")
	if err := os.WriteFile(script, []byte(setup), 0o600); err != nil {
		return err
	}
	s, err := f.server(p, work, dir, []string{"--init-file=" + script})
	if err != nil {
		return err
	}
	if err := s.Start(); err != nil {
		return err
	}
	s.Stop()
	return nil
}

func run(cmd *exec.Cmd) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(out.String())
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, text[max(0, len(text)-2000):])
	}
	return nil
}
