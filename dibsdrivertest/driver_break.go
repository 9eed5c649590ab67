package dibsdrivertest

import (
	"slices"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

var breakCases = []testcase{
	{name: "B26/driver_break_now", run: breakNow},
	{name: "B26/driver_break_later", run: breakLater},
	{name: "S2/driver_break_only_its_token", run: breakToken},
	{name: "driver/list", run: driverList},
	{name: "B38/driver_list_prefix_is_bytes", run: driverListPrefix},
}

func breakNow(e *env) {
	a, b := e.driver(), e.driver()
	p := e.params("k")
	token := e.take(a, p).Token
	record, err := b.Break(e.Context(), dibsdriver.BreakParams{Key: "k", Token: token, Now: true})
	e.ok(err, "break")
	if record.Key != "k" || record.Token != token || record.Holder != p.Holder || record.Note != p.Note || record.ExpiresIn <= 0 {
		e.Errorf("broke %+v", record)
	}
	e.renews(dibsdriver.Lost, a, "k", p.Owner)
	if next := e.take(b, e.params("k")).Token; next < token+dibsdriver.TokenStep {
		e.Errorf("token %d after %d", next, token)
	}
	e.is(a.Release(e.Context(), dibsdriver.ReleaseParams{Key: "k", Owner: p.Owner}), dibsdriver.ErrLost, "release after break")
}

func breakLater(e *env) {
	a, b := e.driver(), e.driver()
	p := e.params("k")
	began := time.Now()
	token := e.take(a, p).Token
	_, err := b.Break(e.Context(), dibsdriver.BreakParams{Key: "k", Token: token})
	e.ok(err, "break")
	e.renews(dibsdriver.Lost, a, "k", p.Owner)
	e.refused(b, "k")
	e.until(e.ttl+e.slack, "the broken lease expires", func() bool { return !e.store.Peek(e, "k").Held })
	if d := time.Since(began); d < e.ttl-time.Millisecond {
		e.Errorf("a lease of %s was broken to end at its expiry and ended after %s", e.ttl, d)
	}
	e.take(b, e.params("k"))
}

// breakToken: an operator breaks the acquisition that he saw, whatever handoffs have added to its token, and no other.
func breakToken(e *env) {
	d := e.driver()
	p := e.params("k")
	token := e.take(d, p).Token
	for _, wrong := range []int64{1, token - 1, token + dibsdriver.TokenStep} {
		record, err := d.Break(e.Context(), dibsdriver.BreakParams{Key: "k", Token: wrong, Now: true})
		e.is(err, dibsdriver.ErrTokenMismatch, "break with another token")
		if record.Token != token || record.Holder != p.Holder {
			e.Errorf("the mismatch shows %+v", record)
		}
	}
	e.renews(dibsdriver.Renewed, d, "k", p.Owner)
	_, err := d.Break(e.Context(), dibsdriver.BreakParams{Key: "k", Token: token + dibsdriver.TokenStep - 1, Now: true})
	e.ok(err, "break with a handoff's token")
	_, err = d.Break(e.Context(), dibsdriver.BreakParams{Key: "k", Token: token, Now: true})
	e.is(err, dibsdriver.ErrNotHeld, "break of a free key")
	_, err = d.Break(e.Context(), dibsdriver.BreakParams{Key: "never held", Token: token, Now: true})
	e.is(err, dibsdriver.ErrNotHeld, "break of an unknown key")
}

func keysOf(records []dibsdriver.Record) []string {
	var keys []string
	for _, r := range records {
		keys = append(keys, r.Key)
	}
	return keys
}

func driverList(e *env) {
	d := e.driver()
	if records, err := d.List(e.Context(), ""); err != nil || len(records) != 0 {
		e.Fatalf("an empty store lists %v, %v", records, err)
	}
	for _, key := range []string{"b", "released", "a", "c"} {
		e.take(d, e.params(key))
	}
	released := e.params("released too")
	e.take(d, released)
	e.ok(d.Release(e.Context(), dibsdriver.ReleaseParams{Key: released.Key, Owner: released.Owner}), "release")
	records, err := e.driver().List(e.Context(), "")
	e.ok(err, "list")
	if got, want := keysOf(records), []string{"a", "b", "c", "released"}; !slices.Equal(got, want) {
		e.Errorf("listed %q, want %q", got, want)
	}
	for _, r := range records {
		if r.Holder != "a holder" || r.Note != "a note" || r.Token == 0 || r.ExpiresIn <= 0 || r.ExpiresIn > e.ttl+time.Millisecond {
			e.Errorf("listed %+v", r)
		}
	}
	for _, r := range records {
		if r.Ending {
			e.Errorf("may be renewed, and is listed as ending: %+v", r)
		}
	}
	e.until(e.ttl+e.slack, "expired leases are not listed", func() bool {
		records, err := d.List(e.Context(), "")
		e.ok(err, "list")
		return len(records) == 0
	})
}

// driverListPrefix: patterns mean nothing, and one key may begin another.
func driverListPrefix(e *env) {
	d := e.driver()
	keys := []string{"100%", "100% sure", "100x", "AXb", "A_b", "a_b", "job", "job/1", "job/1/x", "job0", "é", "éa", "\U0010FFFFx"}
	for _, key := range keys {
		p := e.params(key)
		p.TTL = max(p.TTL, 30*time.Second)
		e.take(d, p)
	}
	for prefix, want := range map[string][]string{
		"100%": {"100%", "100% sure"}, "A_": {"A_b"}, "a_": {"a_b"}, "job": {"job", "job/1", "job/1/x", "job0"}, "job/": {"job/1", "job/1/x"},
		"é": {"é", "éa"}, "\U0010FFFF": {"\U0010FFFFx"}, "*": nil, "%": nil, "": keys, "'": nil,
	} {
		records, err := d.List(e.Context(), prefix)
		e.ok(err, "list")
		if got := keysOf(records); !slices.Equal(got, want) {
			e.Errorf("prefix %q lists %q, want %q", prefix, got, want)
		}
	}
}
