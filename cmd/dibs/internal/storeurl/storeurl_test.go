package storeurl

import (
	"strings"
	"testing"

	"github.com/dibs-go/dibs/cmd/dibs/internal/exit"
)

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"mysql://h/db":                            "mysql://h/db",
		"mysql://u@h/db":                          "mysql://u@h/db",
		"mysql://u:hunter2@h/db":                  "mysql://u:xxxxx@h/db",
		"mysql://u:hunter2@hunter2@h/db":          "mysql://u:xxxxx@h/db",
		"mysql://u:hunter2/hunter2?hunter2@h/db":  "mysql://u:xxxxx@h/db",
		"mysql://u:hunter2&pass=hunter2@h/db":     "mysql://u:xxxxx@h/db",
		"mysql://u:hunter2@h/db?tls=true":         "mysql://u:xxxxx@h/db?tls=true",
		"postgres://h/db?password=hunter2&a=b":    "postgres://h/db?password=xxxxx&a=b",
		"postgres://h/db?a=b&sslPassword=hunter2": "postgres://h/db?a=b&sslPassword=xxxxx",
		"u:hunter2@tcp(h:1)/db?x=y":               "u:xxxxx@tcp(h:1)/db?x=y",
		"redis://:hunter2@h":                      "redis://:xxxxx@h",
		"redis://hunter2@h":                       "redis://xxxxx@h",
		"rediss://u:hunter2@h:1/0":                "rediss://u:xxxxx@h:1/0",
	} {
		got, found := redact(in)
		if got != want || found != (strings.Contains(in, "hunter2")) {
			t.Errorf("%q: %q, %v; want %q", in, got, found, want)
		}
	}
}

func TestParse(t *testing.T) {
	s, err := Parse("sqlite:/a:b@c?d", "--store", false)
	if err != nil || s.Name != "sqlite:/a:b@c?d" || s.address != "/a:b@c?d" || s.Password {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err = Parse("SQLite:/a", "--store", false); err != nil || s.address != "/a" {
		t.Errorf("%+v, %v", s, err)
	}
	for _, in := range []string{"", "x", "/path", ":", "://", "sqlite", "\x00dsn:x", "mysql:", "host=h password=hunter2", "%zz://u:hunter2@h"} {
		_, err := Parse(in, "--store", false)
		if exit.Status(err) != exit.Usage {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// Only what this dibs has a driver for is offered.
func TestKnownStores(t *testing.T) {
	_, err := Parse("nonsense://", "--store", false)
	for _, k := range kinds {
		for _, s := range k.schemes {
			if offered := strings.Contains(err.Error(), " "+s+":"); offered != (k.read != nil && s != schemeDSN) {
				t.Errorf("%s is offered: %v; %v", s, offered, err)
			}
		}
	}
}

// Whatever stands between the user and the last @ is never shown, whether or not the URL can be parsed.
func FuzzNoPasswordIsShown(f *testing.F) {
	f.Add("mysql", "u", "p", "h/db")
	f.Add("redis", "", "p@:/?#", "h")
	f.Add("%%", "u", "p", "tcp(h)/db")
	f.Fuzz(func(t *testing.T, scheme, user, password, rest string) {
		const secret = "hunter2"
		if strings.Contains(scheme+user+rest, secret) || strings.ContainsAny(user, ":/@") || strings.ContainsAny(scheme, ":/@") {
			return
		}
		for _, raw := range []string{
			scheme + "://" + user + ":" + secret + password + "@" + rest,
			scheme + "://" + user + ":" + password + secret + "@" + rest,
			user + ":" + password + secret + "@tcp(h)/" + rest,
		} {
			s, err := Parse(raw, "--store", false)
			if s != nil && s.kind.name == "sqlite" {
				continue // a file's name
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%q: %v", raw, err)
			}
			if shown, _ := redact(raw); strings.Contains(shown, secret) {
				t.Errorf("%q is shown as %q", raw, shown)
			}
		}
	})
}
