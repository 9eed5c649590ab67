package testenv

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

var mysql = &family{
	kind: "mysql", env: "DIBS_TEST_MYSQL", find: findMySQL,
	fill:  func(p *program, data string) error { return run(p.command("--initialize-insecure", "--datadir="+data)) },
	flags: []string{"--mysqlx=OFF", "--secure-file-priv=NULL", "--innodb-redo-log-capacity=16M"},
}

var mariadb = &family{
	kind: "mariadb", env: "DIBS_TEST_MARIADB", find: findMariaDB, fill: fillMariaDB,
	flags: []string{"--innodb-log-file-size=16M"},
}

// findMySQL looks where scripts/test-deps puts it, then where a package would. MariaDB calls its server mysqld, too.
func findMySQL() (*program, error) {
	var roots []string
	if cache, err := os.UserCacheDir(); err == nil {
		roots = append(roots, filepath.Join(cache, "dibs-test", "sid"))
	}
	for _, root := range append(roots, "/opt/dibs-test/sid") {
		wrapper := filepath.Join(root, "run")
		if _, err := os.Stat(wrapper); err != nil {
			continue
		}
		if p := try("MariaDB", false, []string{wrapper, "usr/sbin/mysqld"}, "--lc-messages-dir="+filepath.Join(root, "usr/share/mysql")); p != nil {
			return p, nil
		}
	}
	for _, name := range []string{"mysqld", "/usr/sbin/mysqld", "/usr/local/mysql/bin/mysqld"} {
		if p := try("MariaDB", false, []string{name}); p != nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("MySQL is %w: run scripts/test-deps (as root, on Debian), or let DIBS_TEST_MYSQL name a server, such as the one of "+
		"compose.yaml: DIBS_TEST_MYSQL=mysql://root:dibs@127.0.0.1:13306", errNotThere)
}

func findMariaDB() (*program, error) {
	for _, name := range []string{"mariadbd", "/usr/sbin/mariadbd", "/usr/local/sbin/mariadbd"} {
		if p := try("MariaDB", true, []string{name}); p != nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("MariaDB is %w: run scripts/test-deps (as root, on Debian; or apt-get install mariadb-server-core), or let "+
		"DIBS_TEST_MARIADB name a server, such as the one of compose.yaml: DIBS_TEST_MARIADB=mysql://root:dibs@127.0.0.1:13307", errNotThere)
}

// try returns how to start a server if it is there, and what it says of itself has the word, or has not.
func try(word string, has bool, argv []string, flags ...string) *program {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil
	}
	p := &program{argv: append([]string{path}, argv[1:]...), flags: append([]string{"--no-defaults"}, flags...)}
	if os.Getuid() == 0 {
		p.flags = append(p.flags, "--user=root")
	}
	out, err := exec.Command(p.argv[0], append(p.argv[1:], "--no-defaults", "--version")...).Output()
	if err != nil || strings.Contains(string(out), word) != has {
		return nil
	}
	p.version = string(out)
	return p
}

// fillMariaDB does what mariadb-install-db does, which needs programs of another package.
func fillMariaDB(p *program, data string) error {
	if err := os.Mkdir(filepath.Join(data, "mysql"), 0o700); err != nil {
		return err
	}
	script := []io.Reader{strings.NewReader("create database if not exists mysql;\nuse mysql;\n")}
	share, err := shareOf("mysql_system_tables.sql", "mariadb_system_tables.sql")
	if err != nil {
		return err
	}
	for _, name := range []string{"system_tables.sql", "performance_tables.sql", "system_tables_data.sql", "maria_add_gis_sp_bootstrap.sql"} {
		b, err := readFirst(filepath.Join(share, name), filepath.Join(share, "mysql_"+name), filepath.Join(share, "mariadb_"+name))
		if err != nil {
			return err
		}
		// As the original does, without the accounts for this machine's name.
		script = append(script, bytes.NewReader(b), strings.NewReader("\n"))
	}
	cmd := p.command("--bootstrap", "--datadir="+data, "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M",
		"--loose-innodb-doublewrite=0", "--max-allowed-packet=8M", "--net-buffer-length=16K", "--skip-log-bin")
	cmd.Stdin = io.MultiReader(script...)
	return run(cmd)
}

func shareOf(names ...string) (string, error) {
	for _, dir := range []string{"/usr/share/mysql", "/usr/share/mariadb", "/usr/local/share/mysql", "/usr/local/share/mariadb"} {
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return dir, nil
			}
		}
	}
	return "", fmt.Errorf("MariaDB's own tables (%s) are %w", strings.Join(names, ", "), errNotThere)
}

func readFirst(paths ...string) ([]byte, error) {
	for _, path := range paths {
		if b, err := os.ReadFile(path); err == nil {
			return b, nil
		}
	}
	return nil, fmt.Errorf("none of %s can be read", strings.Join(paths, ", "))
}
