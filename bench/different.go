package main

import (
	"context"
	"errors"
	"slices"
	"time"
)

var differentColumns = []column{
	{"sections/s", "per_s", "%.1f"}, {"beside insert", "to_insert", "%.2f"}, {"beside sql", "to_sql", "%.2f"}, {"failed", "failed", "%.0f"},
}

// rounds is how often contenders take turns where the ratio of two rates is what counts.
const rounds = 3

// different lets every worker take and release a key of its own. The insert is the bare INSERT + DELETE pair here, since it never waits; sql are dibs's own two
// statements by hand.
func different(ctx context.Context, b *bench) error {
	names := append(only(b.settings, b.host.Name, "dibs", "insert"), only(nil, b.host.Name, "sql")...)
	rates := make(map[string][]float64)
	failed := make(map[string]answer)
	for round := range rounds {
		for i := range names {
			c := names[(round+i)%len(names)] // nobody is always first
			j := job{Store: b.host.store, Contender: c, Key: b.host.key(b.workers), Different: true}
			team, err := gather(ctx, 1, b.workers, j)
			if err != nil {
				return err
			}
			a, begin, end, err := team.run(b.time / rounds)
			if err := errors.Join(err, team.dismiss()); err != nil {
				return err
			}
			n := 0
			for _, s := range a.Sections {
				if s.Start >= begin && s.Start < end {
					n++
				}
			}
			rates[c] = append(rates[c], float64(n)/end.sub(begin).Seconds())
			if a.Faults > 0 {
				failed[c] = a
			}
		}
	}
	middle := make(map[string]float64)
	for c, r := range rates {
		slices.Sort(r)
		middle[c] = r[len(r)/2]
	}
	for _, c := range names {
		figures := map[string]float64{"per_s": middle[c], "failed": float64(failed[c].Faults)}
		for other, figure := range map[string]string{"insert": "to_insert", "sql": "to_sql"} {
			if middle[other] > 0 && c != other {
				figures[figure] = middle[c] / middle[other]
			}
		}
		b.add(c, 1, 0, figures, failed[c])
	}
	return nil
}

// only returns those of the names that suit the store, and are chosen (nil: all are).
func only(s *settings, storeName string, names ...string) []string {
	return slices.DeleteFunc(names, func(c string) bool {
		return !suits(c, storeName) || s != nil && !slices.Contains(s.contenders, c)
	})
}

var aloneColumns = []column{
	{"p50 ms", "p50", "%.4f"}, {"p99", "p99", "%.4f"}, {"beside sql", "to_sql", "%.2f"}, {"beside insert", "to_insert", "%.2f"},
	{"beside row", "to_row", "%.2f"}, {"times", "times", "%.0f"},
}

// alone compares what a single acquire and release takes.
func alone(ctx context.Context, b *bench) error {
	names := append(only(b.settings, b.host.Name, "dibs"), only(nil, b.host.Name, "driver", "sql")...)
	names = append(names, only(b.settings, b.host.Name, "insert", "row", "getlock", "mutex")...)
	times, err := aloneTimes(ctx, b, names)
	if err != nil {
		return err
	}
	for _, c := range names {
		slices.Sort(times[c])
		p50 := percentile(times[c], 0.5)
		figures := map[string]float64{"p50": ms(p50), "p99": ms(percentile(times[c], 0.99)), "times": float64(len(times[c]))}
		for other, figure := range map[string]string{"sql": "to_sql", "insert": "to_insert", "row": "to_row"} {
			if m := median(times[other]); m > 0 && c != other {
				figures[figure] = float64(p50) / float64(m)
			}
		}
		b.add(c, 1, 0, figures, answer{})
	}
	return nil
}

func aloneTimes(ctx context.Context, b *bench, names []string) (map[string][]time.Duration, error) {
	p, err := employ(ctx, job{Store: b.host.store})
	if err != nil {
		return nil, err
	}
	a, err := p.ask(order{Do: "alone", For: b.time, Contenders: names})
	return a.Times, errors.Join(err, p.dismiss())
}
