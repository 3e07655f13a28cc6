//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

// row is one line of the table: a measure, both sides, and what was hoped for.
type row struct {
	measure string
	peer    string // who is compared with
	theirs  float64
	ours    float64
	unit    string
	goal    string
	reached bool
	note    string
}

// atLeast compares throughputs, which should be more.
func atLeast(measure, peer string, theirs, ours, goal float64) row {
	return row{measure: measure, peer: peer, theirs: theirs, ours: ours, unit: "MB/s", goal: fmt.Sprintf("≥ %.2f ×", goal), reached: ours >= goal*theirs}
}

// atMost compares what should be less, such as a time.
func atMost(measure, peer, unit string, theirs, ours, goal float64) row {
	return row{measure: measure, peer: peer, theirs: theirs, ours: ours, unit: unit, goal: fmt.Sprintf("≤ %.2f ×", goal), reached: ours <= goal*theirs}
}

type table struct{ rows []row }

func (t *table) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MEASURE\tPEER\tTHEIRS\tTUNCTL\tRATIO\tGOAL\t")
	for _, r := range t.rows {
		theirs, ratio := "-", "-"
		if r.peer != "" {
			theirs = figure(r.theirs) + " " + r.unit
			ratio = fmt.Sprintf("%.2f ×", r.ours/r.theirs)
		}
		verdict := "reached"
		if !r.reached {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.measure, cmp.Or(r.peer, "-"), theirs, figure(r.ours)+" "+r.unit, ratio, r.goal, strings.TrimSpace(verdict+" "+r.note))
	}
	_ = w.Flush() // to a buffer or a terminal; there is nobody else to tell
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

// samples are what was measured of each side, by its name.
type samples map[string][]float64

func (s samples) add(side string, v float64) { s[side] = append(s[side], v) }

// median is robust against the one round in which something else ran.
func (s samples) median(side string) float64 {
	v := slices.Sorted(slices.Values(s[side]))
	if len(v) == 0 {
		return 0
	}
	return v[len(v)/2]
}

// pick are the measurements whose name has a word.
func pick(only string, all []measurement) []measurement {
	return slices.DeleteFunc(all, func(m measurement) bool { return !strings.Contains(m.name, only) })
}

// beside runs measurements beside others; the returned function waits for them.
func beside(ctx context.Context, g *ground, all []measurement) func() ([]row, error) {
	var wg sync.WaitGroup
	rows, errs := make([][]row, len(all)), make([]error, len(all))
	for i, m := range all {
		wg.Go(func() {
			if rows[i], errs[i] = m.run(ctx, g); errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", m.name, errs[i])
			}
		})
	}
	return func() ([]row, error) {
		wg.Wait()
		return slices.Concat(rows...), cmp.Or(errs...)
	}
}
