package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The worker processes are this test program, too.
func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		os.Exit(run(nil))
	}
	os.Exit(m.Run())
}

// TestSmoke measures one workload in two processes, for a short time, and looks whether the figures can be true.
func TestSmoke(t *testing.T) {
	s, err := parse([]string{"-stores", "sqlite", "-workloads", "one", "-contenders", "dibs,insert", "-procs", "2", "-workers", "4", "-work", "2ms", "-time", "500ms"})
	if err != nil {
		t.Fatal(err)
	}
	r := &report{}
	if err := measure(t.Context(), s, r, "sqlite"); err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) > 0 || len(r.Results) != 2 {
		t.Fatalf("%d results, and problems %q", len(r.Results), r.Problems)
	}
	for i, want := range []string{"dibs", "insert"} {
		x := r.Results[i]
		f := x.Figures
		if x.Contender != want || x.Processes != 2 || x.Store != "sqlite" || x.Work != 2*time.Millisecond {
			t.Errorf("result %d is of %+v", i, x)
		}
		// 2 ms of work in turns leave room for 250 sections in half a second.
		if f["per_s"] <= 0 || f["per_s"] > 500 || f["in_use"] <= 0 || f["in_use"] > 1 || f["ideal"] < 8 || f["wait_max"] > 600 {
			t.Errorf("%s: impossible figures: %v", want, f)
		}
	}
	if d := r.Results[0].Figures; d["jain"] == 0 || d["store_per_s"] <= 0 || d["store_per_s"] > d["per_s"]+20 {
		t.Errorf("dibs: impossible figures: %v", d)
	}
}

// TestOverlapsAreSeen: a mutex in each of two processes keeps nobody out of the other's section.
func TestOverlapsAreSeen(t *testing.T) {
	j := job{Store: store{Name: "memory"}, Contender: "mutex", Work: 2 * time.Millisecond}
	s := &settings{time: 300 * time.Millisecond}
	for processes, overlap := range map[int]bool{1: false, 2: true} {
		a, got, err := turnsIn(t.Context(), processes, 4, j, s)
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Sections) < 10 || (got.Overlaps > 0) != overlap {
			t.Errorf("%d processes: %d overlaps in %d sections", processes, got.Overlaps, len(a.Sections))
		}
	}
}

// TestFaultsAreProblems: what must not be makes the exit status 1.
func TestFaultsAreProblems(t *testing.T) {
	b := &bench{settings: &settings{}, report: &report{}, host: &host{store: store{Name: "sqlite"}}, workload: "one"}
	b.add("dibs", 1, 0, map[string]float64{"overlaps": 0, "not_rising": 0}, answer{})
	if len(b.Problems) != 0 {
		t.Fatalf("problems: %q", b.Problems)
	}
	b.add("dibs", 1, 0, map[string]float64{"overlaps": 3, "not_rising": 2}, answer{Faults: 1, Fault: "the server is gone"})
	all := strings.Join(b.Problems, "\n")
	for _, want := range []string{"3 sections overlapped", "2 fencing tokens", "1 calls failed; the first: the server is gone"} {
		if !strings.Contains(all, want) {
			t.Errorf("no problem says %q:\n%s", want, all)
		}
	}
}

func TestTargets(t *testing.T) {
	r := &report{}
	add := func(store, contender string, processes int, work time.Duration, figures map[string]float64) {
		r.Results = append(r.Results, result{"one", store, contender, processes, work, figures})
	}
	add("mysql", "dibs", 1, 0, map[string]float64{"per_s": 600, "jain": 0.96})
	add("mysql", "row", 1, 0, map[string]float64{"per_s": 100})
	add("mysql", "insert", 1, 0, map[string]float64{"per_s": 110})
	add("mysql", "row+mutex", 1, 0, map[string]float64{"per_s": 500}) // no peer
	add("sqlite", "row", 1, 0, map[string]float64{"per_s": 200})
	add("mysql", "row", 5, 0, map[string]float64{"per_s": 999}) // another case
	add("sqlite", "dibs", 5, 5*time.Millisecond, map[string]float64{"in_use": 0.91, "jain": 0.9, "wait_p99": 300, "ideal": 100})
	r.judge()
	var got []string
	for _, v := range r.Verdicts {
		got = append(got, v.Store+": "+v.What+": "+v.word())
	}
	want := []string{
		"mysql: 1 processes, work 0s: Jain: met",
		"mysql: 1 processes, work 0s: rate, beside insert: met",
		"mysql: 1 processes, work 0s: rate, beside the fastest peer on any store measured (row on sqlite): MISSED",
		"sqlite: 5 processes, work 5ms: Jain: MISSED",
		"sqlite: 5 processes, work 5ms: lock in use: met",
		"sqlite: 5 processes, work 5ms: p99 of the waits, beside the ideal line: MISSED",
	}
	if !slices.Equal(got, want) {
		t.Errorf("verdicts:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if v := r.Verdicts[1]; v.Got < 5.45 || v.Got > 5.46 || v.Limit != 5 || !v.AtLeast {
		t.Errorf("%+v", v)
	}
}

// TestStatements: the bare statements are those of the drivers.
func TestStatements(t *testing.T) {
	for original, copied := range map[string]string{
		"../dibsmysql/sql/acquire.sql": mysqlAcquire, "../dibsmysql/sql/release.sql": mysqlRelease,
		"../dibssqlite/sql/takefree.sql": sqliteAcquire, "../dibssqlite/sql/release.sql": sqliteRelease,
	} {
		b, err := os.ReadFile(filepath.FromSlash(original))
		if err != nil {
			t.Fatal(err)
		}
		if string(b) != copied {
			t.Errorf("bench/sql has another text than %s: copy it", original)
		}
	}
}

func TestSettings(t *testing.T) {
	s, err := parse([]string{"-short", "-time", "3s", "-stores", "sqlite,memory", "-work", "0"})
	if err != nil {
		t.Fatal(err)
	}
	if s.time != 3*time.Second || s.renew != 10*time.Second || !slices.Equal(s.works, []time.Duration{0}) || !slices.Equal(s.stores, []string{"sqlite", "memory"}) {
		t.Errorf("%+v", s)
	}
	if got := s.competitors("sqlite", false); !slices.Equal(got, []string{"dibs", "insert", "row"}) {
		t.Errorf("on sqlite, -short: %v", got)
	}
	for _, args := range [][]string{
		{"-stores", "oracle"}, {"-workloads", "one,"}, {"-contenders", "redis"}, {"-procs", "0"}, {"-procs", "51"}, {"-work", "5"}, {"-work", "-1s"},
		{"-workers", "0"}, {"-time", "1ms"}, {"-time", "soon"}, {"-unheard-of"}, {"sqlite"},
	} {
		if _, err := parse(args); err == nil || !strings.HasPrefix(err.Error(), "bench: ") {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestLineIsFirstComeFirstServed(t *testing.T) {
	var l line
	if err := l.enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	order := make(chan int)
	for i := range 3 {
		go func() {
			if err := l.enter(context.Background()); err == nil {
				order <- i
			}
		}()
		l.until(t, i+1)
	}
	ended, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() { left <- l.enter(ended) }()
	l.until(t, 4)
	cancel()
	if err := <-left; err == nil {
		t.Error("a wait that was given up ended without an error")
	}
	for i := range 3 {
		l.leave()
		if got := <-order; got != i {
			t.Errorf("%d was next, want %d", got, i)
		}
	}
	l.leave()
	if l.taken || len(l.waiting) != 0 {
		t.Errorf("something is left: %+v", &l)
	}
}

func (l *line) until(t *testing.T, waiters int) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		n := len(l.waiting)
		l.mu.Unlock()
		if n == waiters {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%d wait, want %d", n, waiters)
		}
	}
}

func TestReport(t *testing.T) {
	r := &report{
		Results:  []result{{"alone", "sqlite", "dibs", 1, 0, map[string]float64{"p50": 0.125, "times": 7}}},
		Verdicts: []verdict{{"alone", "sqlite", "acquire + release", 1.25, 1.1, false, false}},
		Problems: []string{"it hurts"},
	}
	var text, data strings.Builder
	if err := r.write(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## alone: ", "| sqlite | 1 ", "| 0.1250 | - ", "| <= 1.1 | MISSED |", "PROBLEM: it hurts\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if err := r.writeJSON(&data); err != nil {
		t.Fatal(err)
	}
	var back report
	if err := json.Unmarshal([]byte(data.String()), &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Results) != 1 || back.Results[0].Figures["p50"] != 0.125 || len(back.Verdicts) != 1 || back.Verdicts[0].Met || back.Problems[0] != "it hurts" {
		t.Errorf("back from JSON: %+v", back)
	}
}
