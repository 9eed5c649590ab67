package dibsdrivertest

import (
	"fmt"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

var renewCases = []testcase{
	{name: "S2/driver_renew_moves_the_end", run: renewMoves},
	{name: "S2/driver_renew_never_shortens", run: renewNeverShortens, needs: freeTTL},
	{name: "S2/B18/driver_renew_foreign_owner", run: renewForeign},
	{name: "S2/driver_renew_expired", run: renewExpired},
	{name: "S2/driver_renew_closed_rows", run: renewClosed},
	{name: "L4/driver_renew_answers_in_order", run: renewOrder},
	{name: "L4/driver_renew_large_batch", run: renewLarge},
}

// renewOne renews one lease and returns the answer.
func (e *env) renewOne(d dibsdriver.Driver, key, owner string, ttl time.Duration) dibsdriver.RenewAnswer {
	e.Helper()
	answers, err := d.Renew(e.Context(), []dibsdriver.Renewal{{Key: key, Owner: owner, TTL: ttl}})
	if err != nil || len(answers) != 1 {
		e.Fatalf("renewing %q: %v, %v", key, answers, err)
	}
	return answers[0]
}

func (e *env) renews(want dibsdriver.RenewAnswer, d dibsdriver.Driver, key, owner string) {
	e.Helper()
	if got := e.renewOne(d, key, owner, e.ttl); got != want {
		e.Errorf("renewing %q: answer %d, want %d", key, got, want)
	}
}

func renewMoves(e *env) {
	d := e.driver()
	p := e.params("k")
	e.take(d, p)
	for range 5 {
		time.Sleep(e.ttl / 3)
		began := time.Now()
		e.renews(dibsdriver.Renewed, d, "k", p.Owner)
		l := e.store.Peek(e, "k")
		if took := time.Since(began); !l.Held || l.Left < e.ttl-took-50*time.Millisecond || l.Left > e.ttl+50*time.Millisecond {
			e.Fatalf("renewed for %s, and %s later: %+v", e.ttl, took, l)
		}
	}
	e.refused(e.driver(), "k")
}

func renewNeverShortens(e *env) {
	d := e.driver()
	p := e.params("k")
	p.TTL = 10 * e.ttl
	e.take(d, p)
	e.renews(dibsdriver.Renewed, d, "k", p.Owner)
	if l := e.store.Peek(e, "k"); l.Left < 10*e.ttl-e.slack {
		e.Errorf("a renewal for %s shortened a lease of %s: %+v", e.ttl, p.TTL, l)
	}
}

func renewForeign(e *env) {
	a, b := e.driver(), e.driver()
	p := e.params("k")
	e.take(a, p)
	time.Sleep(e.ttl / 4)
	before := e.store.Peek(e, "k")
	e.renews(dibsdriver.Lost, b, "k", newOwner())
	e.renews(dibsdriver.Lost, b, "nobody has it", newOwner())
	if after := e.store.Peek(e, "k"); !after.Held || after.Left > before.Left || after.Token != before.Token {
		e.Errorf("a stranger's renewal changed the lease: %+v, then %+v", before, after)
	}
	e.renews(dibsdriver.Renewed, a, "k", p.Owner)
}

// renewExpired: a lease that has expired is not brought back to life, even if nobody took it since.
func renewExpired(e *env) {
	d := e.driver()
	p := e.params("k")
	e.take(d, p)
	e.until(e.ttl+e.slack, "expired", func() bool { return !e.store.Peek(e, "k").Held })
	e.renews(dibsdriver.Lost, d, "k", p.Owner)
	e.take(e.driver(), e.params("k"))
	e.renews(dibsdriver.Lost, d, "k", p.Owner)
}

// renewClosed: neither a broken lease nor one that was released into its min hold may be renewed by anybody.
func renewClosed(e *env) {
	d := e.driver()
	broken, kept := e.params("broken"), e.params("kept")
	broken.TTL = max(broken.TTL, 30*time.Second) // it is looked at later
	r := e.take(d, broken)
	_, err := d.Break(e.Context(), dibsdriver.BreakParams{Key: "broken", Token: r.Token})
	e.ok(err, "break")
	e.renews(dibsdriver.Lost, d, "broken", broken.Owner)
	e.listedAsEnding("broken")

	if l, _ := d.Limits(); l.SessionTTL > 0 {
		return // no min hold there
	}
	e.take(d, kept)
	e.ok(d.Release(e.Context(), dibsdriver.ReleaseParams{Key: "kept", Owner: kept.Owner, Keep: 30 * time.Second}), "release")
	e.renews(dibsdriver.Lost, d, "kept", kept.Owner)
	e.refused(e.driver(), "kept")
	e.listedAsEnding("kept")
}

func (e *env) listedAsEnding(key string) {
	e.Helper()
	records, err := e.driver().List(e.Context(), key)
	e.ok(err, "list")
	if len(records) != 1 || records[0].Key != key || !records[0].Ending {
		e.Errorf("listed %+v, which nobody may renew", records)
	}
}

func renewOrder(e *env) {
	d := e.driver()
	var leases []dibsdriver.Renewal
	var want []dibsdriver.RenewAnswer
	for i := range 12 {
		p := e.params(fmt.Sprint("k", 11-i)) // not in the order of keys
		answer := dibsdriver.Renewed
		switch i % 3 {
		case 0:
			e.take(d, p)
		case 1:
			e.take(d, p)
			p.Owner, answer = newOwner(), dibsdriver.Lost
		case 2:
			answer = dibsdriver.Lost // nobody has it
		}
		leases = append(leases, dibsdriver.Renewal{Key: p.Key, Owner: p.Owner, TTL: e.ttl})
		want = append(want, answer)
	}
	answers, err := d.Renew(e.Context(), leases)
	e.ok(err, "renew")
	if len(answers) != len(want) {
		e.Fatalf("%d answers for %d leases", len(answers), len(want))
	}
	for i := range want {
		if answers[i] != want[i] {
			e.Errorf("lease %d: answer %d, want %d", i, answers[i], want[i])
		}
	}
	if answers, err := d.Renew(e.Context(), nil); err != nil || len(answers) != 0 {
		e.Errorf("an empty batch: %v, %v", answers, err)
	}
}

func renewLarge(e *env) {
	d := e.driver()
	limits, err := d.Limits()
	e.ok(err, "limits")
	n := 500
	if limits.RenewBatch > 0 {
		n = min(n, limits.RenewBatch)
	}
	leases := make([]dibsdriver.Renewal, n)
	for i := range leases {
		p := e.params(fmt.Sprint("key number ", i))
		p.TTL = max(p.TTL, 30*time.Second+e.f.trips(2*n))
		e.take(d, p)
		leases[i] = dibsdriver.Renewal{Key: p.Key, Owner: p.Owner, TTL: p.TTL}
	}
	answers, err := d.Renew(e.Context(), leases)
	if err != nil || len(answers) != n {
		e.Fatalf("%d answers for %d leases, %v", len(answers), n, err)
	}
	for i, a := range answers {
		if a != dibsdriver.Renewed {
			e.Fatalf("lease %d: answer %d", i, a)
		}
	}
}
