package main

import (
	"context"
	"errors"
)

var oneColumns = []column{
	{"sections/s", "per_s", "%.1f"}, {"in use", "in_use", "%.3f"}, {"from the store/s", "store_per_s", "%.1f"},
	{"wait p50 ms", "wait_p50", "%.2f"}, {"p99", "wait_p99", "%.2f"}, {"max", "wait_max", "%.2f"}, {"ideal line", "ideal", "%.2f"},
	{"Jain", "jain", "%.3f"}, {"overlaps", "overlaps", "%.0f"}, {"not rising", "not_rising", "%.0f"}, {"failed", "failed", "%.0f"},
}

// one lets all workers take turns under one key.
func one(ctx context.Context, b *bench) error {
	for _, processes := range b.procs {
		if b.host.Name == "memory" && processes > 1 {
			continue // it has no way to another process
		}
		for _, work := range b.works {
			for _, c := range b.competitors(b.host.Name, false) {
				j := job{Store: b.host.store, Contender: c, Key: b.host.key(1), Work: work}
				a, t, err := turnsIn(ctx, processes, b.workers, j, b.settings)
				if err != nil {
					return err
				}
				figures := map[string]float64{
					"per_s": t.Sections, "in_use": t.InUse, "store_per_s": float64(a.Acquisitions) / b.time.Seconds(),
					"wait_p50": ms(t.P50), "wait_p99": ms(t.P99), "wait_max": ms(t.Max), "jain": t.Fairness,
					"overlaps": float64(t.Overlaps), "not_rising": float64(t.NotRising), "failed": float64(a.Faults),
				}
				if work > 0 {
					// Sections take longer than asked for, as timers are late; that is no fault of the lock.
					figures["ideal"] = float64(b.workers) * ms(t.Mean)
				}
				b.add(c, processes, work, figures, a)
			}
		}
	}
	return nil
}

// turnsIn measures one case.
func turnsIn(ctx context.Context, processes, workers int, j job, s *settings) (a answer, t turns, err error) {
	team, err := gather(ctx, processes, workers, j)
	if err != nil {
		return a, t, err
	}
	a, begin, end, err := team.run(s.time)
	if err := errors.Join(err, team.dismiss()); err != nil {
		return a, t, err
	}
	return a, analyse(a.Sections, a.Unfinished, begin, end, workers), nil
}
