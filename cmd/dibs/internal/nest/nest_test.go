package nest

import (
	"slices"
	"strings"
	"testing"
)

func TestChain(t *testing.T) {
	env := []string{"A=b", "DIBS_KEY=old", "DIBS_TOKEN=1", "DIBS_HELD=old", "DIBS_STORE=x"}
	env = append(Without(env), Chain{}.Vars("a&b=c d", 5000)...)
	if !slices.Equal(env, []string{"A=b", "DIBS_STORE=x", "DIBS_KEY=a&b=c d", "DIBS_TOKEN=5000", "DIBS_HELD=a%26b%3Dc+d=5000"}) {
		t.Errorf("%q", env)
	}
	get := func(name string) string {
		for _, kv := range env {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v
			}
		}
		return ""
	}
	env = append(Without(env), FromEnv(get).Vars("inner", 9000)...)
	env = append(Without(env), FromEnv(get).Vars("inner", 20000)...) // the same key in another store
	c := FromEnv(get)
	for _, x := range []struct {
		key   string
		token int64
		want  bool
	}{
		{"a&b=c d", 5000, true}, {"a&b=c d", 5000 + 1023, true}, {"a&b=c d", 5000 + 1024, false}, {"a&b=c d", 5000 - 1024, false},
		{"inner", 9000, true}, {"inner", 20000, true}, {"inner", 15000, false}, {"other", 5000, false},
	} {
		if got := c.Holds(x.key, x.token); got != x.want {
			t.Errorf("%q with token %d: %v", x.key, x.token, got)
		}
	}
	if !c.Has("inner") || c.Has("a") {
		t.Error("Has")
	}
}
