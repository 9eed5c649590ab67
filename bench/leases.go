package main

import (
	"context"
	"errors"
	"slices"
	"time"
)

var leasesColumns = []column{
	{"leases", "leases", "%.0f"}, {"taken in s", "acquire_s", "%.2f"}, {"statements/s, by the server", "statements_per_s", "%.2f"},
	{"renewals/s", "renewals_per_s", "%.2f"}, {"goroutines more", "goroutines", "%.0f"}, {"heap bytes each", "heap", "%.0f"}, {"of a core", "cpu", "%.4f"},
}

// leases lets one process hold many, and looks at what it costs to keep them.
func leases(ctx context.Context, b *bench) error {
	if b.host.Name == "memory" || !slices.Contains(b.contenders, "dibs") {
		return nil // the store would be in the heap that is measured; no other contender renews
	}
	p, err := employ(ctx, job{Store: b.host.store, Contender: "dibs", Workers: 16})
	if err != nil {
		return err
	}
	figures, err := b.leasesIn(ctx, p)
	if err := errors.Join(err, p.dismiss()); err != nil {
		return err
	}
	b.add("dibs", 1, 0, figures, answer{})
	return nil
}

func (b *bench) leasesIn(ctx context.Context, p *process) (map[string]float64, error) {
	a, err := p.ask(order{Do: "leases", Count: b.leases})
	if err != nil {
		return nil, err
	}
	var before, after looked
	if before, err = b.look(ctx, p, p); err != nil {
		return nil, err
	}
	began := time.Now()
	select {
	case <-time.After(b.renew):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if after, err = b.look(ctx, p, p); err != nil {
		return nil, err
	}
	took := time.Since(began).Seconds()
	figures := map[string]float64{
		"leases": float64(b.leases), "acquire_s": a.Times["acquire"][0].Seconds(), "goroutines": float64(a.More),
		"renewals_per_s": float64(after.holder.Renewals-before.holder.Renewals) / took,
		"heap":           float64(a.HeapMore) / float64(b.leases), "cpu": (after.holder.CPU - before.holder.CPU).Seconds() / took,
	}
	if b.host.server() {
		figures["statements_per_s"] = float64(after.questions-before.questions-1) / took
	}
	return figures, nil
}
