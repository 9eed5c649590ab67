package dibsdrivertest

import (
	"errors"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

var releaseCases = []testcase{
	{name: "S2/driver_release_frees_at_once", run: releaseFrees},
	{name: "S2/B18/driver_release_foreign_owner", run: releaseForeign},
	{name: "S2/driver_release_twice", run: releaseTwice},
	{name: "L1/driver_release_keep", run: releaseKeep, needs: freeTTL},
	{name: "L1/B11/driver_release_keep_late", run: releaseKeepLate, needs: freeTTL},
}

func releaseFrees(e *env) {
	a, b := e.driver(), e.driver()
	p := e.params("k")
	first := e.take(a, p).Token
	e.ok(a.Release(e.Context(), dibsdriver.ReleaseParams{Key: "k", Owner: p.Owner}), "release")
	if l := e.store.Peek(e, "k"); l.Held {
		e.Errorf("released, and still held: %+v", l)
	}
	if second := e.take(b, e.params("k")).Token; second < first+dibsdriver.TokenStep {
		e.Errorf("token %d after %d", second, first)
	}
}

func releaseForeign(e *env) {
	a, b := e.driver(), e.driver()
	p := e.params("k")
	e.take(a, p)
	before := e.store.Peek(e, "k")
	e.is(b.Release(e.Context(), dibsdriver.ReleaseParams{Key: "k", Owner: newOwner()}), dibsdriver.ErrLost, "a stranger's release")
	e.is(b.Release(e.Context(), dibsdriver.ReleaseParams{Key: "k", Owner: newOwner(), Keep: e.ttl}), dibsdriver.ErrLost, "a stranger's release with keep")
	e.is(b.Release(e.Context(), dibsdriver.ReleaseParams{Key: "nobody has it", Owner: newOwner()}), dibsdriver.ErrLost, "release of nothing")
	if after := e.store.Peek(e, "k"); !after.Held || after.Left > before.Left || after.Token != before.Token {
		e.Errorf("a stranger's release changed the lease: %+v, then %+v", before, after)
	}
	e.renews(dibsdriver.Renewed, a, "k", p.Owner)
}

// releaseTwice: a repeated release says either, but touches nobody else.
func releaseTwice(e *env) {
	a, b := e.driver(), e.driver()
	p, q := e.params("k"), e.params("k")
	release := dibsdriver.ReleaseParams{Key: "k", Owner: p.Owner}
	e.take(a, p)
	e.ok(a.Release(e.Context(), release), "release")
	if err := a.Release(e.Context(), release); err != nil && !errors.Is(err, dibsdriver.ErrLost) {
		e.Errorf("the second release: %v", err)
	}
	e.take(b, q)
	e.is(a.Release(e.Context(), release), dibsdriver.ErrLost, "a release after another has the key")
	e.renews(dibsdriver.Renewed, b, "k", q.Owner)
}

func releaseKeep(e *env) {
	a, b := e.driver(), e.driver()
	p := e.params("k")
	p.TTL = 20 * e.ttl
	e.take(a, p)
	began := time.Now()
	e.ok(a.Release(e.Context(), dibsdriver.ReleaseParams{Key: "k", Owner: p.Owner, Keep: e.ttl}), "release")
	released := time.Now()
	for {
		r, err := b.Acquire(e.Context(), e.params("k"))
		e.ok(err, "acquire")
		if r.Acquired {
			break
		}
		if time.Since(released) > e.ttl+e.slack {
			e.Fatalf("still held %s after it was released to be kept for %s", time.Since(released), e.ttl)
		}
		time.Sleep(2 * time.Millisecond)
	}
	if d := time.Since(began); d < e.ttl-time.Millisecond {
		e.Errorf("free %s after it was released to be kept for %s", d, e.ttl)
	}
}

// releaseKeepLate: a release into the min hold that arrives a second time, as its answer was slow, makes nothing longer; and nothing that has been free is taken again.
func releaseKeepLate(e *env) {
	d := e.driver()
	p := e.params("k")
	p.TTL = time.Hour
	e.take(d, p)
	release := func(keep time.Duration) error {
		return d.Release(e.Context(), dibsdriver.ReleaseParams{Key: "k", Owner: p.Owner, Keep: keep})
	}
	e.ok(release(e.ttl), "release")
	for range 2 {
		if err := release(time.Hour); err != nil && !errors.Is(err, dibsdriver.ErrLost) {
			e.Errorf("the release that came late: %v", err)
		}
		if l := e.store.Peek(e, "k"); l.Held && l.Left > e.ttl {
			e.Errorf("%s are left of a min hold of %s", l.Left, e.ttl)
		}
		e.until(e.ttl+e.slack, "the key is free", func() bool { return !e.store.Peek(e, "k").Held })
	}
	e.take(d, e.params("k"))
}
