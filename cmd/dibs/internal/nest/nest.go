// Package nest lets a dibs know, through the environment, which keys the dibs around it hold: waiting for one of
// those would be waiting for oneself.
package nest

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/dibs-go/dibs/dibsdriver"
)

// The variables that COMMAND finds in its environment.
const (
	KeyVar   = "DIBS_KEY"
	TokenVar = "DIBS_TOKEN"
	// HeldVar is the chain: key=token pairs of this and all outer runs, escaped as in a URL's query.
	HeldVar = "DIBS_HELD"
)

// Chain is what the outer runs hold.
type Chain struct{ held url.Values }

// FromEnv reads the chain. One that cannot be read is none: somebody else's variable must not keep a job from running.
func FromEnv(getenv func(string) string) Chain {
	held, err := url.ParseQuery(getenv(HeldVar))
	if err != nil {
		held = nil
	}
	return Chain{held: held}
}

// Has tells whether an outer run said that it holds the key.
func (c Chain) Has(key string) bool { return len(c.held[key]) > 0 }

// Holds tells whether a lease with this token, as the store shows it now, is one that an outer run holds. That the
// chain names the key is not enough: the outer run may have ended (a daemon keeps its environment), or may have
// taken its key in another store. Handoffs within a process add up to 1023 to the token.
func (c Chain) Holds(key string, token int64) bool {
	for _, s := range c.held[key] {
		t, err := strconv.ParseInt(s, 10, 64)
		if err == nil && token-t < dibsdriver.TokenStep && t-token < dibsdriver.TokenStep {
			return true
		}
	}
	return false
}

// Without is env less what an outer run said of its key.
func Without(env []string) []string {
	out := make([]string, 0, len(env))
	for _, kv := range env {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case KeyVar, TokenVar, HeldVar:
		default:
			out = append(out, kv)
		}
	}
	return out
}

// Vars are what COMMAND finds in its environment besides: this run's key and token, and the chain with them at its end.
func (c Chain) Vars(key string, token int64) []string {
	held := url.Values{}
	for k, v := range c.held {
		held[k] = append([]string(nil), v...)
	}
	t := strconv.FormatInt(token, 10)
	held.Add(key, t)
	return []string{KeyVar + "=" + key, TokenVar + "=" + t, HeldVar + "=" + held.Encode()}
}
