package dibsdrivertest_test

import (
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/dibsdrivertest"
	"github.com/dibs-go/dibs/dibsmem"
)

var memoryStore = dibsdrivertest.Factory{Name: "memory", Bubble: true, New: func(testing.TB) dibsdrivertest.Store {
	return memory{dibsmem.New()}
}}

func TestMemory(t *testing.T) { dibsdrivertest.Run(t, memoryStore) }

// memory is the store that lives in the test's own process.
type memory struct{ s *dibsmem.Store }

func (m memory) Driver(testing.TB) dibsdriver.Driver { return m.s }

func (m memory) URL() string { return "" }

func (m memory) Peek(t testing.TB, key string) dibsdrivertest.Lease {
	return dibsdrivertest.PeekByList(t, m.s, key)
}

func (m memory) StepClock(_ testing.TB, d time.Duration) int64 {
	m.s.Step(d)
	return 0
}

// RemoveRow lets the store's own clean-up find the key.
func (m memory) RemoveRow(t testing.TB, key string) {
	m.s.Expire(key)
	m.s.Step(2 * time.Minute)
	other := dibsdriver.AcquireParams{Key: "another", Owner: "another", TTL: time.Second}
	if _, err := m.s.Acquire(t.Context(), other); err != nil {
		t.Error(err)
	}
	if err := m.s.Release(t.Context(), dibsdriver.ReleaseParams{Key: "another", Owner: "another"}); err != nil {
		t.Error(err)
	}
	m.s.Step(-2 * time.Minute)
}

// Queued can only tell that somebody waits: an attempt that passes by the line is told so.
func (m memory) Queued(t testing.TB, key string) int {
	probe := dibsdriver.AcquireParams{Key: key, Owner: "probe", TTL: time.Second}
	r, err := m.s.Acquire(t.Context(), probe)
	if err != nil {
		t.Fatal(err)
	}
	if r.Acquired {
		if err := m.s.Release(t.Context(), dibsdriver.ReleaseParams{Key: key, Owner: "probe"}); err != nil {
			t.Fatal(err)
		}
	}
	if r.Contended {
		return 1
	}
	return 0
}
