// Package table is what the benches print: measures of two sides, their ratio, and the
// goal for it.
package table

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// Row is one line of the table: a measure, both sides, and what was hoped for.
type Row struct {
	Measure string
	Peer    string // who is compared with; "": nobody
	Theirs  float64
	Ours    float64
	Unit    string
	Goal    string
	Reached bool
	Busy    string // why the row cannot be judged; "": it can
}

// NotJudged marks rows that were measured on a machine that was busy for a reason; "" leaves
// them as they are.
func NotJudged(busy string, rows ...Row) []Row {
	for i := range rows {
		rows[i].Busy = busy
	}
	return rows
}

// AtLeast compares what should be more, such as a throughput.
func AtLeast(measure, peer, unit string, theirs, ours, goal float64) Row {
	return Row{Measure: measure, Peer: peer, Theirs: theirs, Ours: ours, Unit: unit, Goal: fmt.Sprintf("≥ %.2f ×", goal), Reached: ours >= goal*theirs}
}

// AtMost compares what should be less, such as a time.
func AtMost(measure, peer, unit string, theirs, ours, goal float64) Row {
	return Row{Measure: measure, Peer: peer, Theirs: theirs, Ours: ours, Unit: unit, Goal: fmt.Sprintf("≤ %.2f ×", goal), Reached: ours <= goal*theirs}
}

// value is what the runs of a row are ordered by: the ratio, if there is one.
func (r Row) value() float64 {
	if r.Peer == "" {
		return r.Ours
	}
	return r.Ours / r.Theirs
}

// Print prints the table: of the runs of each row that one whose value is the median.
func Print(out io.Writer, rows []Row) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MEASURE\tPEER\tTHEIRS\tTUNCTL\tRATIO\tOF\tGOAL\t")
	same := func(a, b Row) bool { return a.Measure == b.Measure && a.Peer == b.Peer }
	for _, runs := range allRuns("rows", rows, same) {
		judged := slices.DeleteFunc(slices.Clone(runs), func(r Row) bool { return r.Busy != "" })
		if len(judged) > 0 {
			runs = judged
		}
		r, least, most := median(runs, Row.value)
		theirs, ratio, of := "-", "-", figure(least)+" to "+figure(most)
		if r.Peer != "" {
			theirs = figure(r.Theirs) + " " + r.Unit
			ratio, of = fmt.Sprintf("%.2f ×", r.value()), fmt.Sprintf("%.2f to %.2f ×", least, most)
		}
		if len(runs) == 1 {
			of = "one run"
		}
		verdict := "reached"
		if !r.Reached {
			verdict = "MISSED"
		}
		if r.Busy != "" {
			verdict = "not judged: the machine was busy (" + r.Busy + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Measure, cmp.Or(r.Peer, "-"), theirs, figure(r.Ours)+" "+r.Unit, ratio, of, r.Goal, verdict)
	}
	_ = w.Flush() // to a buffer or a terminal; there is nobody else to tell
}

// runsFolder names a folder in which each run of a bench leaves its rows, so that the table is of all
// runs so far.
const runsFolder = "TUNCTL_BENCH_RUNS"

// allRuns are these rows, each with what the earlier runs measured for it, which it adds itself to.
func allRuns[T any](kind string, rows []T, same func(a, b T) bool) [][]T {
	all := make([][]T, len(rows))
	for i, r := range rows {
		all[i] = []T{r}
	}
	folder := os.Getenv(runsFolder)
	if folder == "" {
		return all
	}
	file := filepath.Join(folder, kind+".json")
	var before []T
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &before)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Fatal(err)
	}
	for _, b := range before {
		if i := slices.IndexFunc(rows, func(r T) bool { return same(r, b) }); i >= 0 {
			all[i] = append(all[i], b)
		}
	}
	text, err = json.Marshal(append(before, rows...))
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		log.Fatal(err)
	}
	return all
}

// median is the run in the middle, and the least and the most.
func median[T any](runs []T, value func(T) float64) (middle T, least, most float64) {
	runs = slices.SortedFunc(slices.Values(runs), func(a, b T) int { return cmp.Compare(value(a), value(b)) })
	return runs[(len(runs)-1)/2], value(runs[0]), value(runs[len(runs)-1])
}

func figure(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// Growth is how a cost grows with the size of what it is for.
type Growth struct {
	Measure string
	Unit    string
	Sizes   []float64
	Costs   []float64 // one of each size
}

// superlinear is how much more one item may cost at the largest size than at the one
// before it; measurements vary.
const superlinear = 1.5

// each is the ratio of the cost of one item at the largest size to that at the one
// before it: 1 is linear, less is better.
func (g Growth) each() float64 {
	n := len(g.Sizes)
	if g.Costs[n-1] == 0 {
		return 0 // too little to be measured
	}
	return g.Costs[n-1] / g.Costs[n-2] * g.Sizes[n-2] / g.Sizes[n-1]
}

// PrintGrowth prints the table of growth.
func PrintGrowth(out io.Writer, rows []Growth) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MEASURE\tAT\tCOST\tEACH\tOF\tGOAL\t")
	for _, runs := range allRuns("growth", rows, func(a, b Growth) bool { return a.Measure == b.Measure }) {
		g, least, most := median(runs, Growth.each)
		of := "one run"
		if len(runs) > 1 {
			of = fmt.Sprintf("%.2f to %.2f ×", least, most)
		}
		sizes, costs := make([]string, len(g.Sizes)), make([]string, len(g.Sizes))
		for i := range g.Sizes {
			sizes[i], costs[i] = count(g.Sizes[i]), figure(g.Costs[i])
		}
		verdict := "linear or better"
		if g.each() > superlinear {
			verdict = "GROWS FASTER"
		}
		fmt.Fprintf(w, "%s\t%s\t%s %s\t%.2f ×\t%s\t≤ %.1f ×\t%s\n", g.Measure, strings.Join(sizes, " / "), strings.Join(costs, " / "), g.Unit, g.each(), of, superlinear, verdict)
	}
	_ = w.Flush() // to a buffer or a terminal; there is nobody else to tell
}

// count is a whole number with its thousands apart.
func count(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Samples are what was measured of each side, by its name.
type Samples map[string][]float64

// Add takes a measurement in.
func (s Samples) Add(side string, v float64) { s[side] = append(s[side], v) }

// Median is robust against the one round in which something else ran.
func (s Samples) Median(side string) float64 { return s.quantile(side, 2) }

// P95 is what all but one in twenty stay below.
func (s Samples) P95(side string) float64 { return s.quantile(side, 20) }

// quantile leaves one in n above it.
func (s Samples) quantile(side string, n int) float64 {
	v := slices.Sorted(slices.Values(s[side]))
	if len(v) == 0 {
		return 0
	}
	return v[len(v)-1-len(v)/n]
}
