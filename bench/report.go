package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// result is one case: a contender in a workload on a store.
type result struct {
	Workload  string             `json:"workload"`
	Store     string             `json:"store"`
	Contender string             `json:"contender"`
	Processes int                `json:"processes,omitempty"`
	Work      time.Duration      `json:"work_ns"`
	Figures   map[string]float64 `json:"figures"` // times in milliseconds; see the columns of each workload
}

// report is all that was found.
type report struct {
	Results  []result  `json:"results"`
	Verdicts []verdict `json:"targets"`
	Problems []string  `json:"problems"`
}

func (r *report) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// column is a figure as a table shows it.
type column struct {
	title, figure, format string
}

// add notes a case, and what in it must not be.
func (b *bench) add(contender string, processes int, work time.Duration, figures map[string]float64, a answer) {
	b.Results = append(b.Results, result{b.workload, b.host.Name, contender, processes, work, figures})
	at := fmt.Sprintf("%s on %s, %s, %d processes, work %s", b.workload, b.host.Name, contender, processes, work)
	if n := figures["overlaps"]; n > 0 {
		b.problem("%s: %.0f sections overlapped", at, n)
	}
	if n := figures["not_rising"]; n > 0 {
		b.problem("%s: %.0f fencing tokens did not rise", at, n)
	}
	if a.Faults > 0 {
		b.problem("%s: %d calls failed; the first: %s", at, a.Faults, a.Fault)
	}
}

func (r *report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// write prints a table for each workload, which is Markdown too, then the targets.
func (r *report) write(w io.Writer) error {
	for _, load := range workloads {
		var rows [][]string
		for _, x := range r.Results {
			if x.Workload != load.name {
				continue
			}
			row := []string{x.Store, fmt.Sprint(x.Processes), x.Work.String(), x.Contender}
			for _, c := range load.columns {
				cell := "-"
				if v, ok := x.Figures[c.figure]; ok {
					cell = fmt.Sprintf(c.format, v)
				}
				row = append(row, cell)
			}
			rows = append(rows, row)
		}
		if len(rows) == 0 {
			continue
		}
		head := []string{"store", "processes", "work", "contender"}
		for _, c := range load.columns {
			head = append(head, c.title)
		}
		if err := table(w, load.title, head, rows); err != nil {
			return err
		}
	}
	var rows [][]string
	for _, v := range r.Verdicts {
		rows = append(rows, []string{v.Workload, v.Store, v.What, fmt.Sprintf("%.4g", v.Got), v.sign() + fmt.Sprintf(" %.4g", v.Limit), v.word()})
	}
	if len(rows) > 0 {
		if err := table(w, "targets", []string{"workload", "store", "what", "measured", "target", ""}, rows); err != nil {
			return err
		}
	}
	for _, p := range r.Problems {
		if _, err := fmt.Fprintf(w, "PROBLEM: %s\n", p); err != nil {
			return err
		}
	}
	return nil
}

func table(w io.Writer, title string, head []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	line := func(cells []string) { fmt.Fprintf(t, "| %s\t|\n", strings.Join(cells, "\t| ")) }
	fmt.Fprintf(t, "## %s\n\n", title)
	line(head)
	rule := make([]string, len(head))
	for i := range rule {
		rule[i] = "---"
	}
	line(rule)
	for _, r := range rows {
		line(r)
	}
	fmt.Fprintln(t)
	return t.Flush()
}

// ms is a time as figures have it.
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
