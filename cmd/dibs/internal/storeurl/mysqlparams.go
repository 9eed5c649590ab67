package storeurl

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// mysqlParams are the parameters of an address: those of dibs, whose names have a hyphen so that none of the server's variables can be meant
// (socket aside), and the rest, which are the client library's.
type mysqlParams struct {
	prefix, socket string
	ca, cert, key  string
	rest           []string // name=value, the values escaped
}

// credentials are names by which JDBC and others take them. The server would be told of a variable that it does not have, and of no user.
var credentials = []string{"user", "username", "password", "passwd", "pwd"}

func splitParams(query string) (p mysqlParams, wrong string) {
	own := map[string]*string{"table-prefix": &p.prefix, "socket": &p.socket, "tls-ca": &p.ca, "tls-cert": &p.cert, "tls-key": &p.key}
	for param := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(param, "=")
		to := own[name]
		switch {
		case param == "":
		case to != nil:
			text, err := url.QueryUnescape(value)
			if err != nil || text == "" {
				return p, "has a parameter " + name + " whose value cannot be read: leave it out, or write " + name + "=VALUE (and %25 for %)"
			}
			*to = text
		case slices.Contains(credentials, strings.ToLower(name)):
			return p, fmt.Sprintf("has a parameter %q: user and password stand before the host, as in mysql://user:password@host:port/database", name)
		case strings.Contains(name, "-"):
			return p, fmt.Sprintf("has a parameter %q, which neither dibs nor go-sql-driver knows: dibs has table-prefix, socket, tls-ca, tls-cert and tls-key", name)
		case name == "strict" || !strings.Contains(param, "="): // strict: the client library panics
			return p, fmt.Sprintf("has a parameter %q that stands for nothing: leave it out, or write NAME=VALUE", name)
		default:
			// The client library looks for the last slash of all, and takes values escaped.
			p.rest = append(p.rest, name+"="+strings.ReplaceAll(value, "/", "%2F"))
		}
	}
	return p, ""
}

// config is what the client library makes of its parameters, and what is ours in it.
func (p *mysqlParams) config() (cfg *mysql.Config, wrong string) {
	for _, param := range p.rest {
		if _, err := mysql.ParseDSN("/?" + param); err != nil { // its text would show the value
			switch name, _, _ := strings.Cut(param, "="); name {
			case "tls":
				return nil, "has a tls= that stands for nothing: it takes true, skip-verify, preferred or false; tls-ca=FILE names an authority to trust"
			default:
				return nil, fmt.Sprintf("has a parameter %q whose value cannot be read: times are written as 5s, switches as true or false, %% as %%25", name)
			}
		}
	}
	cfg, err := mysql.ParseDSN("/?" + strings.Join(p.rest, "&"))
	if err != nil {
		return nil, "has parameters that contradict each other"
	}
	cfg.TLS = nil // it was made for no host; TLSConfig tells how to make it for the right one
	if wrong := p.trust(cfg); wrong != "" {
		return nil, wrong
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = dialLimit
	}
	if cfg.ConnectionAttributes == "" {
		cfg.ConnectionAttributes = "program_name:dibs"
	}
	// dibs says what there is to say in lines of its own.
	cfg.Logger = &mysql.NopLogger{}
	return cfg, ""
}

// trust makes of files whom to trust, and who we are.
func (p *mysqlParams) trust(cfg *mysql.Config) (wrong string) {
	if p.ca == "" && p.cert == "" && p.key == "" {
		return ""
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	switch mode := strings.ToLower(cfg.TLSConfig); {
	case (p.cert == "") != (p.key == ""):
		return "has tls-cert without tls-key, or the other way round: give both, the certificate and its key"
	case mode == "", mode == "true":
	case mode == "skip-verify" && p.ca == "":
		t.InsecureSkipVerify = true
	default:
		return fmt.Sprintf("has tls=%s beside tls-ca or tls-cert: that contradicts itself, so leave tls= out", mode)
	}
	if p.ca != "" {
		pem, err := os.ReadFile(p.ca)
		if err != nil {
			return "names a tls-ca that cannot be read: " + err.Error()
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Sprintf("names a tls-ca that has no certificate in it, in PEM: %s", p.ca)
		}
	}
	if p.cert != "" {
		c, err := tls.LoadX509KeyPair(p.cert, p.key)
		if err != nil {
			return "names a tls-cert and a tls-key that cannot be used: " + err.Error()
		}
		t.Certificates = []tls.Certificate{c}
	}
	cfg.TLS = t
	return ""
}
