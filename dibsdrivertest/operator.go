package dibsdrivertest

import (
	"context"
	"errors"
	"time"

	"github.com/dibs-go/dibs"
)

var operatorCases = []testcase{
	{name: "B26/locks_shows_who", run: showsWho},
	{name: "B26/break_now", run: operatorBreakNow},
	{name: "B26/break_passes_at_expiry", run: operatorBreak},
	{name: "B26/break_needs_the_token", run: operatorBreakToken},
	{name: "S3/verify", run: verify},
	{name: "S3/verify_when_the_store_is_away", run: verifyAway},
	{name: "S2/verify_overtaken_by_release", run: verifyOvertaken},
	{name: "S2/verify_renews", run: verifyRenews},
}

func showsWho(e *env) {
	a := e.lockerWith(dibs.Config{Name: "reports on host-7"})
	b := e.locker()
	began := time.Now()
	lock, _ := e.hold(a, "report/daily", dibs.Note("run 17"))
	other, _ := e.hold(a, "other")
	infos, err := b.Locks(e.Context(), "report/")
	e.ok(err, "locks")
	if len(infos) != 1 {
		e.Fatalf("locks: %+v", infos)
	}
	i := infos[0]
	if i.Key != "report/daily" || i.Holder != "reports on host-7" || i.Note != "run 17" || i.Token != lock.Token() || i.ExpiresIn <= 0 || i.ExpiresIn > e.ttl {
		e.Errorf("locks: %+v", i)
	}
	if !i.Since.IsZero() && i.Since.Sub(began).Abs() > e.slack+time.Second {
		e.Errorf("held since %s, acquired at %s", i.Since, began)
	}
	infos, err = b.Locks(e.Context(), "")
	e.ok(err, "locks")
	if len(infos) != 2 || infos[0].Key != "other" {
		e.Errorf("locks: %+v", infos)
	}
	e.ok(lock.Release(), "release")
	e.ok(other.Release(), "release")
	infos, err = b.Locks(e.Context(), "")
	if err != nil || len(infos) != 0 {
		e.Errorf("locks: %+v, %v", infos, err)
	}
}

// operatorBreakNow: the holder hears of it at its next renewal, and the next holder's token is higher.
func operatorBreakNow(e *env) {
	a, b := e.lockerWith(dibs.Config{TTL: e.telling()}), e.locker()
	lock, work := e.hold(a, "k")
	end := ending(work)
	infos, err := b.Locks(e.Context(), "k")
	e.ok(err, "locks")
	broken := time.Now()
	info, err := b.BreakNow(e.Context(), "k", infos[0].Token)
	e.ok(err, "break")
	if info.Key != "k" || info.Token != lock.Token() {
		e.Errorf("broke %+v", info)
	}
	if token := e.free(b, "k", e.slack); token <= lock.Token() {
		e.Errorf("token %d after %d", token, lock.Token())
	}
	e.toldByRenewal(end, broken)
	e.is(context.Cause(work), dibs.ErrLost, "the work's context")
	e.is(lock.Release(), dibs.ErrLost, "release")
	_, err = b.BreakNow(e.Context(), "k", lock.Token())
	e.is(err, dibs.ErrReleased, "break of a free key")
}

// operatorBreak: a holder that lives is told by its next renewal, before the key passes on.
func operatorBreak(e *env) {
	a, b := e.lockerWith(dibs.Config{TTL: e.telling()}), e.locker()
	lock, work := e.hold(a, "k")
	end := ending(work)
	broken := time.Now()
	_, err := b.Break(e.Context(), "k", lock.Token())
	e.ok(err, "break")
	next := e.waits(b, "k")
	at := e.toldByRenewal(end, broken)
	n := e.got(next, e.telling()+e.slack)
	if !at.Before(n.at) {
		e.Error("another had the key before the holder was told")
	}
	e.is(lock.Release(), dibs.ErrLost, "release")
	e.ok(n.lock.Verify(e.Context()), "the next holder asks")
	e.ok(n.lock.Release(), "release")
}

func operatorBreakToken(e *env) {
	a, b := e.lockerWith(dibs.Config{Name: "someone"}), e.locker()
	lock, _ := e.hold(a, "k")
	info, err := b.BreakNow(e.Context(), "k", lock.Token()-1)
	e.is(err, dibs.ErrBusy, "break with another token")
	busy, ok := errors.AsType[*dibs.BusyError](err)
	if !ok || busy.Holder.Holder != "someone" || busy.Holder.Token != lock.Token() || info.Token != lock.Token() {
		e.Errorf("break with another token: %+v, %+v", info, busy)
	}
	for _, token := range []int64{0, -1} {
		_, err = b.Break(e.Context(), "k", token)
		if err == nil || errors.Is(err, dibs.ErrReleased) || errors.Is(err, dibs.ErrBusy) {
			e.Errorf("break without a token: %v", err)
		}
	}
	_, err = b.Break(e.Context(), "nobody", 1)
	e.is(err, dibs.ErrReleased, "break of a free key")
	e.ok(lock.Verify(e.Context()), "the holder asks")
	e.ok(lock.Release(), "release")
}

func verify(e *env) {
	a, b := e.locker(), e.locker()
	lock, work := e.hold(a, "k")
	e.ok(lock.Verify(e.Context()), "verify")
	_, err := b.BreakNow(e.Context(), "k", lock.Token())
	e.ok(err, "break")
	e.is(lock.Verify(e.Context()), dibs.ErrLost, "verify")
	e.is(context.Cause(work), dibs.ErrLost, "the work's context") // it need not wait for the next renewal
	e.is(lock.Err(), dibs.ErrLost, "the lock")
	e.is(lock.Verify(e.Context()), dibs.ErrLost, "verify again")
	e.is(lock.Release(), dibs.ErrLost, "release")
	e.is(lock.Verify(e.Context()), dibs.ErrReleased, "verify after release")
}

// verifyAway: silence says nothing about the lock.
func verifyAway(e *env) {
	a, faults := e.faultyLocker(dibs.Config{RequestTimeout: e.ttl / 4})
	lock, _ := e.hold(a, "k")
	faults.OnAll(Hang())
	began := time.Now()
	err := lock.Verify(e.Context())
	e.took(began, 0, e.ttl/4+50*time.Millisecond, "verify")
	e.is(err, dibs.ErrUnavailable, "verify")
	e.isNot(err, dibs.ErrLost, "verify")
	ctx, cancel := context.WithTimeout(e.Context(), 20*time.Millisecond)
	defer cancel()
	err = lock.Verify(ctx)
	e.is(err, context.DeadlineExceeded, "verify")
	e.isNot(err, dibs.ErrLost, "verify")
	if e.exact {
		e.ok(lock.Err(), "the lock")
	}
	faults.Heal()
	if e.exact {
		e.ok(lock.Verify(e.Context()), "verify after the outage")
	}
	lock.Release()
}

func verifyRenews(e *env) {
	a := e.locker()
	lock, _ := e.hold(a, "k")
	time.Sleep(e.ttl / 4)
	e.ok(lock.Verify(e.Context()), "verify")
	if left := lock.Remaining(); left < e.ttl-e.margin()-e.ttl/4+e.ttl/20 && e.exact {
		e.Errorf("trusted for %s after it was verified", left)
	}
	e.ok(lock.Release(), "release")
}

// verifyOvertaken: the store has answered, and meanwhile the lock was released. That is not a store that is silent.
func verifyOvertaken(e *env) {
	a, faults := e.faultyLocker(dibs.Config{})
	for _, fault := range []Fault{Delay(0, 200*time.Millisecond), Delay(200*time.Millisecond, 0)} {
		lock, _ := e.hold(a, "k")
		rule := faults.On(OpRenew, Nth(1), fault)
		verified := make(chan error, 1)
		go func() { verified <- lock.Verify(background()) }()
		e.until(e.ttl, "it asks", func() bool { return rule.Hits() > 0 })
		e.ok(lock.Release(), "release")
		e.is(receive(e, verified), dibs.ErrReleased, "verify")
	}
}
