//go:build linux

package main_test

import (
	"os/exec"
	"slices"
	"testing"
	"time"
)

// BenchmarkRun measures what dibs costs over the bare command: alternating runs of both, and the median of the differences.
func BenchmarkRun(b *testing.B) {
	store := "sqlite:" + b.TempDir() + "/locks.db"
	once := func(name string, args ...string) time.Duration {
		begin := time.Now()
		if err := exec.Command(name, args...).Run(); err != nil {
			b.Fatal(err)
		}
		return time.Since(begin)
	}
	once(binary, "run", "--store", store, "k", "--", "true") // makes the file
	var over []time.Duration
	for b.Loop() {
		bare := once("true")
		over = append(over, once(binary, "run", "--store", store, "k", "--", "true")-bare)
	}
	slices.Sort(over)
	b.ReportMetric(float64(over[len(over)/2].Microseconds())/1000, "ms-over-bare")
	b.ReportMetric(float64(over[len(over)/10].Microseconds())/1000, "ms-over-bare-p10")
}
