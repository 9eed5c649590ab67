package dibsdrivertest

import (
	"context"
	"time"

	"github.com/dibs-go/dibs"
)

// B11 on a real wire.

// ambiguousOnWire: the request arrives and its answer does not. Its caller gives up after a second, or is told before that the connection
// ended; everything is well after that.
func ambiguousOnWire(spoil func(*Proxy)) func(e *env) {
	return func(e *env) {
		a, wire := e.linked(dibs.Config{TTL: longTTL}, onWire(spoil))
		b := e.lockerWith(dibs.Config{TTL: longTTL})
		wire.begin()
		ctx, cancel := context.WithTimeout(e.Context(), time.Second)
		defer cancel()
		applied := make(chan bool, 1)
		go func() {
			held := false
			for ctx.Err() == nil && !held {
				held = e.store.Peek(e, "k").Held
				time.Sleep(5 * time.Millisecond)
			}
			applied <- held
		}()
		_, _, err := a.Acquire(ctx, "k")
		e.unknown(err, "acquire")
		if !receive(e, applied) {
			e.Error("the request was to be applied")
		}
		wire.Heal()
		lock, _, err := b.Acquire(e.Context(), "k", dibs.MaxWait(3*time.Second))
		if err != nil {
			e.Fatalf("the key is not free within 3 s: %v", err)
		}
		// What takes the first one back touches nothing of the second.
		e.throughout(e.ttl, "the next holder has the key", func() bool { return lock.Err() == nil && e.store.Peek(e, "k").Held })
		e.ok(lock.Verify(e.Context()), "the next holder asks")
		e.ok(lock.Release(), "the next holder's release")
		e.free(a, "k", 10*time.Second)
	}
}

// ambiguousLateOnWire: the request arrives when its caller has gone, and has closed its connection. Nobody has the key by it for long.
func ambiguousLateOnWire(spoil func(*Proxy)) func(e *env) {
	return func(e *env) {
		a, wire := e.linked(dibs.Config{TTL: longTTL}, onWire(spoil))
		b := e.lockerWith(dibs.Config{TTL: longTTL})
		wire.begin()
		ctx, cancel := context.WithTimeout(e.Context(), time.Second)
		defer cancel()
		_, _, err := a.Acquire(ctx, "k")
		e.unknown(err, "acquire")
		wire.Heal()
		for range 4 { // what arrives late may come between two of these
			e.free(b, "k", 3*time.Second)
			time.Sleep(e.ttl / 4)
		}
		e.free(a, "k", 3*time.Second)
	}
}
