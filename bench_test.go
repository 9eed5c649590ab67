package dibs_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsmem"
)

// What the engine alone costs: the store is a map. Run with -benchmem, or by make bench.

func benchLocker(b *testing.B) *dibs.Locker {
	b.Helper()
	l, err := dibs.New(dibsmem.New(), &dibs.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := l.Shutdown(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return l
}

func takeAndRelease(b *testing.B, l *dibs.Locker, key string) {
	lock, _, err := l.Acquire(context.Background(), key)
	if err != nil {
		b.Error(err)
		return
	}
	if err := lock.Release(); err != nil {
		b.Error(err)
	}
}

// BenchmarkAcquireRelease: nobody else wants the key.
func BenchmarkAcquireRelease(b *testing.B) {
	l := benchLocker(b)
	b.ReportAllocs()
	for b.Loop() {
		takeAndRelease(b, l, "k")
	}
}

// BenchmarkAcquireReleaseManyKeys: the same with 1,000 keys in turn, and 1,000 others that are held.
func BenchmarkAcquireReleaseManyKeys(b *testing.B) {
	l := benchLocker(b)
	var keys []string
	for i := range 1000 {
		lock, _, err := l.Acquire(b.Context(), fmt.Sprint("held:", i))
		if err != nil {
			b.Fatal(err)
		}
		defer lock.Release()
		keys = append(keys, fmt.Sprint("key:", i))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		takeAndRelease(b, l, keys[i%len(keys)])
		i++
	}
}

// BenchmarkHandoff: one turn of a key that 50 others wait for.
func BenchmarkHandoff(b *testing.B) {
	const waiters = 50
	l := benchLocker(b)
	turns := make(chan struct{}, b.N)
	for range b.N {
		turns <- struct{}{}
	}
	close(turns)
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for range waiters + 1 {
		wg.Go(func() {
			for range turns {
				takeAndRelease(b, l, "k")
			}
		})
	}
	wg.Wait()
}

// BenchmarkTryBusy: the answer that a key is held.
func BenchmarkTryBusy(b *testing.B) {
	l := benchLocker(b)
	lock, _, err := l.Acquire(b.Context(), "k")
	if err != nil {
		b.Fatal(err)
	}
	defer lock.Release()
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := l.TryAcquire(context.Background(), "k"); err == nil {
			b.Fatal("a key that is held was acquired")
		}
	}
}
