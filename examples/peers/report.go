package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
)

// report is what --json prints.
type report struct {
	CPU     string     `json:"cpu"`
	Cores   int        `json:"cores"`
	Go      string     `json:"go"`
	Seconds float64    `json:"seconds"`
	Rounds  int        `json:"rounds"`
	Disks   []*disk    `json:"disks"`
	Results []row      `json:"results"`
	Pickups []pickup   `json:"pickups"`
	Alone   float64    `json:"alone_cpu_us"` // a task in one process that has no other
	Calls   float64    `json:"system_calls"` // a task
	Pending int64      `json:"pending"`      // what there was to drain
	Drained []drained  `json:"drained"`
	Proved  []verified `json:"verified"`
	Took    []span     `json:"took"`
	LeftOut []leftOut  `json:"left_out"`
}

// leftOut is a peer that cannot be had here.
type leftOut struct {
	Peer string `json:"peer"`
	Why  string `json:"why"`
}

// row is one peer with one number of workers on one disk.
type row struct {
	Disk    string    `json:"disk"`
	Peer    string    `json:"peer"`
	Base    string    `json:"base"` // the mbox that it is compared with
	Workers int       `json:"workers"`
	Rates   []float64 `json:"rates"` // of each round, tasks a second
	Rate    float64   `json:"rate"`  // their median
	CPU     float64   `json:"cpu_us"`
	// Switches are voluntary context switches a task.
	Switches float64 `json:"switches"`
	// Ratio is the median of the base's rate through the peer's in each round;
	// 0 where the base did not run.
	Ratio float64 `json:"mbox_by_peer"`

	cpus, switches []float64
}

func (r *row) add(s *score) {
	r.Rates = append(r.Rates, s.rate())
	r.cpus = append(r.cpus, s.cpu())
	r.switches = append(r.switches, float64(s.Switches)/float64(len(s.Done)))
}

func (r *row) finish(all []row) {
	r.Rate, r.CPU, r.Switches = median(r.Rates), median(r.cpus), median(r.switches)
	i := slices.IndexFunc(all, func(o row) bool { return o.Peer == r.Base && o.Workers == r.Workers })
	if i < 0 {
		return
	}
	r.Ratio = all[i].beside(r)
}

// beside is the median of the ratios of each round, 0 if one of them did not run.
func (r *row) beside(o *row) float64 {
	var ratios []float64
	for round := range min(len(r.Rates), len(o.Rates)) {
		ratios = append(ratios, r.Rates[round]/o.Rates[round])
	}
	return median(ratios)
}

// median is 0 where there is none.
func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

func (r *report) machine() {
	r.Cores, r.Go, r.CPU = runtime.NumCPU(), runtime.Version(), "unknown CPU"
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return // another system: it stays unknown
	}
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			r.CPU = strings.Trim(name, " \t:\n")
			break
		}
	}
}

func (r *report) printHead(w io.Writer, chosen []*peer) {
	fmt.Fprintf(w, "machine: %s, %d cores, %s\n\n", r.CPU, r.Cores, r.Go)
	for _, p := range chosen {
		fmt.Fprintf(w, "%-20s %s\n", p.name, p.what)
	}
	for _, l := range r.LeftOut {
		fmt.Fprintf(w, "%-20s LEFT OUT: %s\n", l.Peer, l.Why)
	}
	fmt.Fprintf(w, "\nsubmit, claim, complete of 1.5 KB tasks; median of %d rounds of %g s\n", r.Rounds, r.Seconds)
}

func printRows(w io.Writer, rows []row) {
	fmt.Fprintf(w, "\n%-20s %10s %21s %12s %14s %12s\n", fmt.Sprintf("%d worker(s)", rows[0].Workers), "tasks/s", "(slowest - fastest)", "CPU µs/task", "switches/task", "mbox/peer")
	for _, r := range rows {
		ratio := "-"
		if r.Ratio > 0 && r.Peer != r.Base {
			ratio = fmt.Sprintf("%.2f", r.Ratio)
		}
		fmt.Fprintf(w, "%-20s %10.0f %10.0f -%9.0f %12.0f %14.0f %12s\n", r.Peer, r.Rate, slices.Min(r.Rates), slices.Max(r.Rates), r.CPU, r.Switches, ratio)
	}
}
