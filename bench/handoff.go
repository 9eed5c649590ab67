package main

import (
	"context"
	"time"
)

var handoffColumns = []column{
	{"p50 ms", "p50", "%.3f"}, {"p99", "p99", "%.3f"}, {"handoffs", "handoffs", "%.0f"}, {"acquire + release ms", "pair", "%.4f"},
	{"beside it", "to_pair", "%.2f"}, {"overlaps", "overlaps", "%.0f"}, {"not rising", "not_rising", "%.0f"}, {"failed", "failed", "%.0f"},
}

// Two processes take turns: each holds the key so long, then stays away for a while, so that the other one has waited for most of the hold.
const holdFor, stayAway = 100 * time.Millisecond, 20 * time.Millisecond

func handoff(ctx context.Context, b *bench) error {
	if b.host.Name == "memory" {
		return nil // it has no way to another process
	}
	names := b.competitors(b.host.Name, true)
	pairs, err := aloneTimes(ctx, b, names)
	if err != nil {
		return err
	}
	for _, c := range names {
		j := job{Store: b.host.store, Contender: c, Key: b.host.key(1), Work: holdFor, Pause: stayAway}
		a, t, err := turnsIn(ctx, 2, 2, j, b.settings)
		if err != nil {
			return err
		}
		gaps := handoffs(a.Sections)
		pair := median(pairs[c])
		figures := map[string]float64{
			"handoffs": float64(len(gaps)), "pair": ms(pair),
			"overlaps": float64(t.Overlaps), "not_rising": float64(t.NotRising), "failed": float64(a.Faults),
		}
		if len(gaps) > 0 { // who retries now and then may keep the other out for all of the time
			p50 := percentile(gaps, 0.5)
			figures["p50"], figures["p99"], figures["to_pair"] = ms(p50), ms(percentile(gaps, 0.99)), float64(p50)/float64(pair)
		}
		b.add(c, 2, holdFor, figures, a)
	}
	return nil
}
