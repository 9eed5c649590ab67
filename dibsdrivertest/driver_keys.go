package dibsdrivertest

import (
	"slices"
	"strings"
	"time"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
)

var keyCases = []testcase{
	{name: "B36/B38/driver_keys_are_bytes", run: keysAreBytes},
	{name: "B38/keys_refused", run: keysRefused},
	{name: "B38/prefix_counts", run: keyPrefix},
}

// alikeKeys are keys that some store has taken for each other, or choked on.
func alikeKeys() []string {
	long := strings.Repeat("x", 254)
	return []string{
		"Order-A", "order-a", "ORDER-A", "order-a ", "order-a  ", " order-a", "order-a\t", "order-a\n", "order-a\x00", "order-a\x00b", "\x00",
		"ä", "a\u0308", "a", "A", "Å", "\u212b", "ß", "ss", "ı", "i", "İ", "I",
		"🔒", "🔓", "👩‍🚀", "👩", "\ufeffa", "a\u200b", "\U0010FFFF",
		"%", "_", "a%", "a_", "*", "?", "[a]", "'", "''", `"`, "`", `\`, `\\`, `\x41`, "x'41'", "; --", "/* */", "$1", ":a", "@a", "{a}", "a{b}", "a}{",
		"path", "path/", "path/1", "/path", "path//1", "path/../path", ".", "..", "NULL", "null", "0", "-0", "1e3", "1000", "0x10",
		strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat("x", 191), strings.Repeat("x", 192), long, long + "y", long + "z",
		strings.Repeat("é", 127), strings.Repeat("é", 127) + "a", strings.Repeat("🔒", 63) + "abc", strings.Repeat("\x00", 255),
	}
}

// keysAreBytes holds all those keys at once, each by its own owner, and lets go of every second.
func keysAreBytes(e *env) {
	a, b := e.driver(), e.driver()
	keys := alikeKeys()
	owners := make(map[string]string)
	for _, key := range keys {
		p := e.params(key)
		p.TTL = max(p.TTL, time.Minute)
		if owners[key] != "" {
			e.Fatalf("%q is twice in the table", key)
		}
		if r, err := a.Acquire(e.Context(), p); err != nil || !r.Acquired {
			e.Fatalf("%q: %+v, %v", key, r, err)
		}
		owners[key] = p.Owner
	}
	records, err := b.List(e.Context(), "")
	e.ok(err, "list")
	want := slices.Sorted(slices.Values(keys))
	if got := keysOf(records); !slices.Equal(got, want) {
		e.Errorf("listed %q\nwant %q", got, want)
	}
	var left []string
	for i, key := range want {
		if i%2 == 1 {
			left = append(left, key)
			continue
		}
		e.ok(b.Release(e.Context(), dibsdriver.ReleaseParams{Key: key, Owner: owners[key]}), "release of "+key)
	}
	for i, key := range want {
		l := e.store.Peek(e, key)
		if l.Held != (i%2 == 1) {
			e.Errorf("%q: held %t", key, l.Held)
		}
	}
	var leases []dibsdriver.Renewal
	for _, key := range left {
		leases = append(leases, dibsdriver.Renewal{Key: key, Owner: owners[key], TTL: time.Minute})
	}
	answers, err := a.Renew(e.Context(), leases)
	e.ok(err, "renew")
	for i, answer := range answers {
		if answer != dibsdriver.Renewed {
			e.Errorf("renewing %q: answer %d", left[i], answer)
		}
	}
}

// keysRefused: what no store can keep fails at the call, with one error on all of them, and nothing is cut off in silence.
func keysRefused(e *env) {
	l := e.locker()
	for _, key := range []string{
		"", strings.Repeat("x", 256), strings.Repeat("x", 1024), strings.Repeat("x", 4096), strings.Repeat("🔒", 64),
		"\xff", "a\xc3", "\xed\xa0\x80", "a\xf4\x90\x80\x80",
	} {
		_, _, err := l.Acquire(e.Context(), key)
		e.is(err, dibs.ErrInvalidKey, "acquire")
		_, _, err = l.TryAcquire(e.Context(), key)
		e.is(err, dibs.ErrInvalidKey, "try")
		ran, err := l.TryDo(e.Context(), key, nil)
		if e.is(err, dibs.ErrInvalidKey, "try-do"); ran {
			e.Error("ran")
		}
		_, err = l.Break(e.Context(), key, 1)
		e.is(err, dibs.ErrInvalidKey, "break")
	}
	long := strings.Repeat("x", 255)
	e.free(l, long, 5*time.Second)
	e.free(l, "x", 5*time.Second)
	e.free(l, "\x00", 5*time.Second)
}

func keyPrefix(e *env) {
	plain, app, other := e.locker(), e.lockerWith(dibs.Config{Prefix: "app:"}), e.lockerWith(dibs.Config{Prefix: "App:"})
	for _, l := range []*dibs.Locker{plain, app, other} {
		lock, _ := e.hold(l, "k")
		defer lock.Release()
		if lock.Key() != "k" {
			e.Errorf("the lock's key is %q", lock.Key())
		}
	}
	if b := e.busy(plain, "app:k"); b.Holder.Key != "app:k" {
		e.Errorf("busy: %+v", b)
	}
	infos, err := app.Locks(e.Context(), "")
	e.ok(err, "locks")
	if len(infos) != 1 || infos[0].Key != "k" {
		e.Errorf("the application sees %+v", infos)
	}
	_, _, err = app.TryAcquire(e.Context(), strings.Repeat("x", 252))
	e.is(err, dibs.ErrInvalidKey, "a key that is too long with its prefix")
	e.free(app, strings.Repeat("x", 251), 5*time.Second)
}
