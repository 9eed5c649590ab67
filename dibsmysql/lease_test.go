package dibsmysql

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
)

func TestLease(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		d, other := b.driver(t, ""), b.driver(t, "")
		exercise(t, "k🔒", d, other)
		if err := d.Ping(within(t)); err != nil {
			t.Error(err)
		}
	})
}

// exercise goes once over all moves with a key, with two drivers to one store.
func exercise(t *testing.T, key string, d, other *Driver) {
	t.Helper()
	p := params(key, time.Minute)
	r, err := d.Acquire(within(t), p)
	if err != nil || !r.Acquired {
		t.Fatal(r, err)
	}
	now := time.Now().UnixMicro()
	if diff := now - r.Token; diff < -5e6 || diff > 60e6 {
		t.Errorf("token %d is not the time, %d", r.Token, now)
	}
	again, err := d.Acquire(within(t), p)
	if err != nil || again.Token != r.Token {
		t.Errorf("the same request again: %+v, %v", again, err)
	}
	for range 2 { // the second only reads
		h := refusedBy(t, other, p.Key)
		if h.Key != p.Key || h.Token != r.Token || h.Holder != p.Holder || h.Note != p.Note || h.ExpiresIn > time.Minute || h.ExpiresIn < 50*time.Second {
			t.Errorf("the holder is %+v", h)
		}
		if d := h.Since.Sub(time.UnixMicro(now)).Abs(); d > 5*time.Second || h.Since.Location() != time.UTC {
			t.Errorf("since %v", h.Since)
		}
	}
	renewed(t, d, dibsdriver.Renewed, p.Key, p.Owner, 2*time.Minute)
	renewed(t, d, dibsdriver.Renewed, p.Key, p.Owner, time.Minute)
	renewed(t, d, dibsdriver.Lost, p.Key, newOwner(), time.Minute)
	list, err := other.List(within(t), key)
	if err != nil || len(list) != 1 || list[0].Token != r.Token || list[0].ExpiresIn < 110*time.Second || list[0].Holder != p.Holder {
		t.Errorf("list: %+v, %v", list, err)
	}
	if err := other.Release(within(t), dibsdriver.ReleaseParams{Key: p.Key, Owner: newOwner()}); !errors.Is(err, dibsdriver.ErrLost) {
		t.Error(err)
	}
	release(t, d, p.Key, p.Owner)
	renewed(t, d, dibsdriver.Lost, p.Key, p.Owner, time.Minute)
	owner, token := take(t, other, p.Key, time.Minute)
	if token < r.Token+dibsdriver.TokenStep {
		t.Errorf("token %d after %d", token, r.Token)
	}
	if _, err := d.Break(within(t), dibsdriver.BreakParams{Key: p.Key, Token: r.Token}); !errors.Is(err, dibsdriver.ErrTokenMismatch) {
		t.Error(err)
	}
	if rec, err := d.Break(within(t), dibsdriver.BreakParams{Key: p.Key, Token: token}); err != nil || rec.Token != token {
		t.Error(rec, err)
	}
	renewed(t, other, dibsdriver.Lost, p.Key, owner, time.Minute)
	if rec, err := d.Break(within(t), dibsdriver.BreakParams{Key: p.Key, Token: token, Now: true}); err != nil || rec.Holder == "" {
		t.Error(rec, err)
	}
	if _, err := d.Break(within(t), dibsdriver.BreakParams{Key: p.Key, Token: token, Now: true}); !errors.Is(err, dibsdriver.ErrNotHeld) {
		t.Error(err)
	}
	owner, _ = take(t, d, p.Key, time.Minute)
	const keep = 150 * time.Millisecond
	released := time.Now()
	if err := d.Release(within(t), dibsdriver.ReleaseParams{Key: p.Key, Owner: owner, Keep: keep}); err != nil {
		t.Error(err)
	}
	renewed(t, d, dibsdriver.Lost, p.Key, owner, time.Minute)
	early := params(p.Key, time.Minute)
	if r, err := other.Acquire(within(t), early); err != nil || r.Acquired && time.Since(released) < keep {
		t.Errorf("within the min hold: %+v, %v", r, err)
	} else if r.Acquired { // a loaded machine was not quick enough
		release(t, other, p.Key, early.Owner)
	}
	eventually(t, "free after the min hold", func() bool {
		q := params(p.Key, 120*time.Millisecond)
		r, err := other.Acquire(within(t), q)
		return err == nil && r.Acquired
	})
	eventually(t, "expired and taken", func() bool {
		q := params(p.Key, time.Minute)
		r, err := d.Acquire(within(t), q)
		owner = q.Owner
		return err == nil && r.Acquired
	})
	release(t, d, p.Key, owner)
}

// TestRace: of all who ask at once, one gets a key that was never there.
func TestRace(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		drivers := []*Driver{b.driver(t, ""), b.driver(t, "")}
		for round := range 15 {
			var won atomic.Int32
			var wg sync.WaitGroup
			for i := range 16 {
				wg.Go(func() {
					r, err := drivers[i%2].Acquire(within(t), params(fmt.Sprint("k", round), time.Minute))
					if err != nil {
						t.Error(err)
					}
					if r.Acquired {
						won.Add(1)
					}
				})
			}
			wg.Wait()
			if won.Load() != 1 {
				t.Fatalf("round %d: %d owners", round, won.Load())
			}
		}
	})
}

// TestRenewAnswers: each lease has its own answer, in the order of the questions.
func TestRenewAnswers(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		var leases []dibsdriver.Renewal
		var want []dibsdriver.RenewAnswer
		add := func(key, owner string, ttl time.Duration, answer dibsdriver.RenewAnswer) {
			leases, want = append(leases, dibsdriver.Renewal{Key: key, Owner: owner, TTL: ttl}), append(want, answer)
		}
		for i := range 30 {
			key := fmt.Sprint("k", 29-i)
			owner, _ := take(t, d, key, time.Minute)
			switch i % 5 {
			case 0:
				add(key, owner, time.Minute, dibsdriver.Renewed)
			case 1:
				add(key, newOwner(), time.Minute, dibsdriver.Lost)
			case 2:
				add(key+" nobody has it", owner, time.Minute, dibsdriver.Lost)
			case 3:
				add(key, owner, 0, dibsdriver.Refused)
			case 4: // another TTL, and twice
				add(key, owner, 2*time.Minute, dibsdriver.Renewed)
				add(key, owner, 2*time.Minute, dibsdriver.Renewed)
			}
		}
		unlock := b.lockRow(t, leases[0].Key)
		want[0] = dibsdriver.Unknown
		for range 2 {
			began := time.Now()
			answers, err := d.Renew(within(t), leases)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 900*time.Millisecond {
				t.Errorf("waited %s for a row", took)
			}
			for i := range want {
				if answers[i] != want[i] {
					t.Errorf("lease %d, %+v: %v, want %v", i, leases[i], answers[i], want[i])
				}
			}
			if want[0] == dibsdriver.Unknown {
				unlock()
			}
			want[0] = dibsdriver.Renewed
		}
	})
}
