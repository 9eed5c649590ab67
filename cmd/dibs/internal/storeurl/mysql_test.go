package storeurl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-go/dibs/cmd/dibs/internal/exit"
)

func TestMySQLAddresses(t *testing.T) {
	for in, want := range map[string]string{
		"mysql://u:p@h/db":                           "u p tcp h:3306 db",
		"MariaDB://u:p@h:3307/db":                    "u p tcp h:3307 db",
		"mysql://u@h/db":                             "u  tcp h:3306 db",
		"mysql://h/db":                               "  tcp h:3306 db",
		"mysql://u%40x:p%2F%3A%40%3F%23%25+@h/d%20b": "u@x p/:@?#%+ tcp h:3306 d b",
		"mysql://u:p@[::1]/db":                       "u p tcp [::1]:3306 db",
		"mysql://u:p@[fe80::1%25eth0]:3307/db":       "u p tcp [fe80::1%eth0]:3307 db",
		"mysql://u:p@/db?socket=/run/my%20sql.sock":  "u p unix /run/my sql.sock db",
		"mysql:///db?tls=false&socket=/s":            "  unix /s db",
		"mysql://u:p@tcp(h:3307)/db":                 "u p tcp h:3307 db",
		"u:p@tcp(h:3307)/db":                         "u p tcp h:3307 db",
		"u:p@tcp(h)/db":                              "u p tcp h db",
		"u:p@(h)/db":                                 "u p tcp h db",
		"u:p@/db":                                    "u p tcp  db",
		"u:p@unix(/run/my.sock)/d%2Fb?tls=false":     "u p unix /run/my.sock d/b",
		"u:p@unix/db":                                "u p unix  db",
		"tcp(h:1)/db":                                "  tcp h:1 db",
		"mysql:p:/@?#(x)/%@tcp([::1]:3307)/db?loc=Europe/Amsterdam": "mysql p:/@?#(x)/% tcp [::1]:3307 db",
		"u:p@tcp6(h:1)/db?timeout=5s":                               "u p tcp6 h:1 db",
	} {
		s, err := Parse(in, "--store", false)
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		cfg, _, wrong := mysqlConfig(s.scheme, s.address)
		if got := strings.Join([]string{cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.DBName}, " "); wrong != "" || got != want {
			t.Errorf("%q: %q, %q, want %q", in, got, wrong, want)
		}
		if s.kind.name != "mysql" || s.Password != (cfg.Passwd != "") {
			t.Errorf("%q is of kind %s, with a password: %v", in, s.kind.name, s.Password)
		}
	}
}

func TestMySQLParameters(t *testing.T) {
	s, err := Parse("mysql://h/db?table-prefix=my_&timeout=2s&tls=skip-verify&time_zone=%27%2B01%3A00%27&", "--store", false)
	if err != nil {
		t.Fatal(err)
	}
	cfg, _, _ := mysqlConfig(s.scheme, s.address)
	if cfg.Timeout != 2*time.Second || cfg.TLSConfig != "skip-verify" || len(cfg.Params) != 1 || cfg.Params["time_zone"] != "'+01:00'" {
		t.Errorf("%+v", cfg)
	}
	if !strings.Contains(s.Schema(), "my_leases") || strings.Contains(s.Schema(), "dibs_leases") {
		t.Errorf("DDL: %s", s.Schema())
	}
	if cfg, _, _ = mysqlConfig("mysql", "//h/db"); cfg.Timeout != dialLimit {
		t.Errorf("a connection may take %s to make", cfg.Timeout)
	}
}

func TestMySQLAddressesThatAreWrong(t *testing.T) {
	text := filepath.Join(t.TempDir(), "hunter.pem")
	if err := os.WriteFile(text, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for in, part := range map[string]string{
		"mysql:":                                                       "is not complete",
		"mysql:u:hunter2@h/db":                                         "is not complete",
		"mysql://":                                                     "names no host",
		"mysql:///db":                                                  "socket=",
		"mysql://u:hunter2@h":                                          "names no database",
		"mysql://u:hunter2@h/":                                         "names no database",
		"u:hunter2@tcp(h)/":                                            "names no database",
		"mysql://u:hunter2@h/db/x":                                     "has a /",
		"mysql://u:hunter2@h1,h2/db":                                   "several hosts",
		"mysql://u:hunter2@h:1,h2/db":                                  "several hosts",
		"mysql://u:hunter2@h:1,h2:2/db":                                "several hosts",
		"mysql://h/db?user=u&password=hunter2":                         `"user": user and password stand before the host`,
		"tcp(h)/db?Password=hunter2":                                   `"Password": user and password stand before the host`,
		"mysql://u:hunter2@h:0/db":                                     "port",
		"mysql://u:hunter2@h:65536/db":                                 "port",
		"mysql://u:hunter2@h:x/db":                                     "a port that is none: ports are numbers from 1 to 65535",
		"mysql://u:12/hunter2:x@h:1/db":                                "%2F",
		"mysql://h:hunter2/db":                                         "%40",
		"mysql://u:a@b:x/hunter2@h/db":                                 "%40",
		"mysql://u:hunter2#x@h/db":                                     "%23",
		"mysql://u:12#hunter2@h/db":                                    "%23",
		"mysql://u:12/hunter2@h/db":                                    "%2F",
		"mysql://u:12?hunter2@h/db":                                    "%3F",
		"mysql://u:hunter2%@h/db":                                      "%25",
		"mysql://u:hunter2/db":                                         "%XX",
		"u:hunter2@ftp(h)/db":                                          "network",
		"u:hunter2@tcp(h)/d%b":                                         "%25",
		"mysql://u:hunter2@h/db?strict=true":                           `"strict"`,
		"mysql://u:hunter2@h/db?hunter":                                `"hunter"`,
		"mysql://u:hunter2@h/db?no-such=hunter2":                       `"no-such"`,
		"mysql://u:hunter2@h/db?timeout=hunter2":                       `"timeout"`,
		"mysql://u:hunter2@h/db?parseTime=hunter2":                     `"parseTime"`,
		"mysql://u:hunter2@h/db?loc=hunter2":                           `"loc"`,
		"mysql://u:hunter2@h/db?tls=hunter2":                           "skip-verify",
		"mysql://u:hunter2@h/db?x=%zz":                                 `"x"`,
		"mysql://u:hunter2@h/db?socket=/s":                             "host and a socket",
		"mysql://u:hunter2@h/db?socket=":                               "socket",
		"mysql://u:hunter2@h/db?table-prefix=Abc":                      "lower-case",
		"mysql://u:hunter2@h/db?tls-ca=/no/such":                       "no such file",
		"mysql://u:hunter2@h/db?tls-ca=" + text:                        "no certificate",
		"mysql://u:hunter2@h/db?tls-cert=" + text:                      "tls-key",
		"mysql://u:hunter2@h/db?tls-cert=" + text + "&tls-key=" + text: "cannot be used",
		"mysql://u:hunter2@h/db?tls=false&tls-ca=" + text:              "contradicts",
		"mysql://u:hunter2@h/db?tls=skip-verify&tls-ca=" + text:        "contradicts",
	} {
		_, err := Parse(in, "a-file", false)
		if exit.Status(err) != exit.Usage || !strings.Contains(err.Error(), part) || !strings.Contains(err.Error(), "a-file") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, which does not say %q", in, err, part)
		}
	}
}

// Who mistyped a port is not sent to look at the password.
func TestAWrongPortIsNotThePasswords(t *testing.T) {
	for _, in := range []string{"mysql://u:hunter2@h:x/db", "mysql://u@h:x/db", "mysql://u:hunter2@h:0/db", "mysql://u:hunter2@h:99999/db", "mysql://u:hunter2@[::1]:x/db?a=b", "mysql://u:hunter2@h:3306x"} {
		if _, err := Parse(in, "a-file", false); err == nil || !strings.Contains(err.Error(), "port") || strings.Contains(err.Error(), "%") || strings.Contains(err.Error(), "password") {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// The words for users of the command follow what the driver says; this is where one sees that they have parted.
func TestMySQLWords(t *testing.T) {
	for _, scheme := range []string{"mysql", schemeDSN} {
		w := mysqlWords(scheme)
		got := w.Replace("the certificate is not trusted; let tls= in the DSN name a configuration that trusts it (mysql.RegisterTLSConfig); look at the DSN, or choose another Config.TablePrefix")
		for _, forProgrammers := range []string{"the DSN ", "RegisterTLSConfig", "Config."} {
			if strings.Contains(got, forProgrammers) {
				t.Errorf("%q is left in %q", forProgrammers, got)
			}
		}
	}
}
