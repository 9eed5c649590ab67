package dibs

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/dibs-go/dibs/internal/load"
	"github.com/dibs-go/dibs/internal/outbox"
)

// whatHelps is for keys that are asked for too often.
const whatHelps = "one key is worked under by one at a time: make its section shorter, spread it over several keys (dibs.Shard), " +
	"replace it by an atomic update of the store (UPDATE ... SET n = n - 1 WHERE n > 0), or use a faster store"

// countRequest notices a key that is asked for too often.
func (e *engine) countRequest(key string) {
	if e.load.Request(key, time.Now()) {
		e.advise(key, fmt.Sprintf("more than %d requests a second", load.Requests))
	}
}

// countWaiters notices a line that is too long.
func (e *engine) countWaiters(key string, waiters int) {
	if e.load.Line(key, waiters, time.Now()) {
		e.advise(key, fmt.Sprintf("more than %d waiters in this process", load.Waiters))
	}
}

func (e *engine) advise(key, what string) {
	key = e.userKey(key)
	e.log(outbox.Frequent, slog.LevelWarn, "dibs: a key is under heavy load", "key", key, "store", e.limits.Store, "what", what, "advice", whatHelps)
	e.tell(outbox.Frequent, e.cfg.Events.LoadAdvice, Event{Key: key, Advice: what + ": " + whatHelps})
}
