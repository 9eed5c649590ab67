package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// verdict is a target, and what was measured.
type verdict struct {
	Workload string  `json:"workload"`
	Store    string  `json:"store"`
	What     string  `json:"what"`
	Got      float64 `json:"measured"`
	Limit    float64 `json:"target"`
	AtLeast  bool    `json:"at_least"` // or at most
	Met      bool    `json:"met"`
}

func (v verdict) sign() string {
	if v.AtLeast {
		return ">="
	}
	return "<="
}

func (v verdict) word() string {
	if v.Met {
		return "met"
	}
	return "MISSED"
}

func (r *report) atMost(x result, got, limit float64, format string, args ...any) {
	r.Verdicts = append(r.Verdicts, verdict{x.Workload, x.Store, fmt.Sprintf(format, args...), got, limit, false, got <= limit})
}

func (r *report) atLeast(x result, got, limit float64, format string, args ...any) {
	r.Verdicts = append(r.Verdicts, verdict{x.Workload, x.Store, fmt.Sprintf(format, args...), got, limit, true, got >= limit})
}

// judge holds what was measured against the targets.
func (r *report) judge() {
	for _, x := range r.Results {
		if x.Contender != "dibs" {
			continue
		}
		switch f := x.Figures; x.Workload {
		case "one":
			r.judgeOne(x)
		case "different":
			if v, ok := f["to_insert"]; ok {
				r.atLeast(x, v, 1, "rate, beside the bare INSERT + DELETE")
			}
		case "idle":
			if v, ok := f["statements_per_s"]; ok {
				r.atMost(x, v, 2, "statements/s of %.0f waiters", f["waiters"])
				r.atMost(x, f["connections"], 2, "connections of %.0f waiters", f["waiters"])
			} else {
				r.atMost(x, f["cpu"], 0.01, "share of a core of %.0f waiters", f["waiters"])
			}
		case "handoff":
			switch {
			case f["handoffs"] == 0:
				r.problem("handoff on %s: the key never went from one process to the other", x.Store)
			case x.Store == "sqlite":
				r.atMost(x, f["p50"], 5, "p50 in ms")
			default:
				r.atMost(x, f["to_pair"], 4, "p50, beside a bare acquire + release")
			}
		case "leases":
			r.atMost(x, cmp.Or(f["statements_per_s"], f["renewals_per_s"]), 5, "statements/s of %.0f leases", f["leases"])
			r.atMost(x, f["heap"], 8<<10, "heap bytes a lease")
			r.atMost(x, f["goroutines"], 20, "goroutines more with %.0f leases", f["leases"])
		case "alone":
			if v, ok := f["to_sql"]; ok {
				r.atMost(x, v, 1.10, "acquire + release, beside the bare statements")
			}
			if v, ok := f["to_insert"]; ok {
				r.atMost(x, v, 1.20, "acquire + release, beside INSERT + DELETE")
			}
		}
	}
}

// judgeOne knows targets for 1 and for 5 processes; more are held to the same as 5.
func (r *report) judgeOne(x result) {
	f, many := x.Figures, x.Processes > 1
	at := fmt.Sprintf("%d processes, work %s", x.Processes, x.Work)
	r.atLeast(x, f["jain"], 0.95, "%s: Jain", at)
	if x.Work == 0 {
		if best, name := r.fastest(x, x.Store); best > 0 {
			r.atLeast(x, f["per_s"]/best, 5, "%s: rate, beside %s", at, name)
		}
		if best, name := r.fastest(x, ""); x.Store == "mysql" && best > 0 {
			r.atLeast(x, f["per_s"]/best, 5, "%s: rate, beside the fastest peer on any store measured (%s)", at, name)
		}
		return
	}
	if x.Work != 5*time.Millisecond {
		return
	}
	inUse, wait := 0.97, 1.3
	if many {
		inUse, wait = 0.93, 2.5
		if x.Store == "sqlite" {
			inUse = 0.90
		}
	}
	r.atLeast(x, f["in_use"], inUse, "%s: lock in use", at)
	r.atMost(x, f["wait_p99"]/f["ideal"], wait, "%s: p99 of the waits, beside the ideal line", at)
}

// fastest finds the peer that was fastest in the same case, on one store or ("") on any. A peer speaks to a store: one behind a local mutex
// is shown, but is no peer.
func (r *report) fastest(x result, storeName string) (rate float64, name string) {
	for _, y := range r.Results {
		if y.Workload != x.Workload || y.Processes != x.Processes || y.Work != x.Work || y.Contender == "dibs" || y.Contender == "mutex" ||
			strings.HasSuffix(y.Contender, behindMutex) || storeName != "" && y.Store != storeName {
			continue
		}
		if v := y.Figures["per_s"]; v > rate {
			rate, name = v, y.Contender
			if storeName == "" {
				name += " on " + y.Store
			}
		}
	}
	return rate, name
}
