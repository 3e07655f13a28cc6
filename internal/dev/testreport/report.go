package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// slowest is how many tests are named for the time they took.
const slowest = 10

// event is a line of "go test -json"; see "go doc test2json".
type event struct {
	Action  string
	Package string
	Test    string // empty: it is about the package
	Elapsed float64
	Output  string
}

// test is a test of a package, or, without a name, the package itself.
type test struct{ pkg, name string }

// took is how long a test ran.
type took struct {
	test
	seconds float64
}

// report gathers events.
type report struct {
	out     io.Writer
	output  map[test][]string   // of tests that are not over, and of packages
	failed  map[string][]string // by package, the output of tests that failed
	summary []string            // of each of these its name and what it logged, in short
	parents map[test]bool       // tests that have parts
	times   []took
	skipped map[string][]test // by reason
	counts  map[string]int    // by action
	running map[string]bool   // packages
}

func newReport(out io.Writer) *report {
	return &report{
		out: out, output: map[test][]string{}, failed: map[string][]string{}, parents: map[test]bool{},
		skipped: map[string][]test{}, counts: map[string]int{}, running: map[string]bool{},
	}
}

// line takes a line of go test.
func (r *report) line(text []byte) {
	var e event
	if err := json.Unmarshal(text, &e); err != nil {
		_, _ = r.out.Write(text) // not an event, but somebody's words
		return
	}
	at := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		r.output[at] = append(r.output[at], e.Output)
	case "start":
		r.running[e.Package] = true
	case "run":
		if end := strings.LastIndexByte(e.Test, '/'); end > 0 {
			r.parents[test{e.Package, e.Test[:end]}] = true
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.packageOver(e)
		} else {
			r.testOver(e)
		}
		delete(r.output, at)
	}
}

func (r *report) testOver(e event) {
	at := test{e.Package, e.Test}
	r.counts[e.Action]++
	switch e.Action {
	case "fail":
		r.failed[e.Package] = append(r.failed[e.Package], r.output[at]...)
		r.summary = append(r.summary, "  "+e.Package+" "+e.Test)
		for _, line := range r.output[at] {
			if said.MatchString(line) {
				r.summary = append(r.summary, fmt.Sprintf("    %.200s", strings.TrimSpace(line)))
			}
		}
	case "skip":
		why := reason(r.output[at])
		r.skipped[why] = append(r.skipped[why], at)
	}
	if e.Action != "skip" {
		r.times = append(r.times, took{at, e.Elapsed})
	}
}

// said is a line that a test logged: where, and its words.
var said = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)`)

// reason is what a test said last before it was skipped.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		if m := said.FindStringSubmatch(line); m != nil {
			return m[1]
		}
	}
	return "no reason was given"
}

// packageOver shows what "go test" itself would show of a package.
func (r *report) packageOver(e event) {
	delete(r.running, e.Package)
	lines := r.output[test{e.Package, ""}]
	if e.Action != "fail" {
		for _, line := range lines {
			if strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "?   \t") {
				fmt.Fprint(r.out, line)
			}
		}
		return
	}
	for _, line := range r.failed[e.Package] {
		fmt.Fprint(r.out, line)
	}
	// A panic or the time limit ends a package in the middle of tests.
	for at := range r.output {
		if at.pkg == e.Package && at.name != "" {
			fmt.Fprint(r.out, strings.Join(r.output[at], ""))
			r.counts["fail"]++
			delete(r.output, at)
		}
	}
	for _, line := range lines {
		fmt.Fprint(r.out, line)
	}
}

// progress says how many tests are over, and which packages run.
func (r *report) progress(wall time.Duration) {
	what := "tests are being compiled"
	if len(r.running) > 0 {
		what = "running: " + strings.Join(slices.Sorted(maps.Keys(r.running)), ", ")
	}
	fmt.Fprintf(r.out, "%v, %d tests are over; %s\n", wall.Round(time.Second), r.counts["pass"]+r.counts["fail"]+r.counts["skip"], what)
}

// end tells of all packages together: how long it took, and how long processors were busy.
func (r *report) end(wall, busy time.Duration, good bool) {
	r.tellSlowest()
	r.tellSkipped()
	if len(r.summary) > 0 {
		fmt.Fprintf(r.out, "\nFailed, with the first line of each message; all of it is above:\n%s\n", strings.Join(r.summary, "\n"))
	}
	fmt.Fprintf(r.out, "\n%d tests and parts of tests passed, %d failed, %d were not run; %v, and %v of processors\n",
		r.counts["pass"], r.counts["fail"], r.counts["skip"], wall.Round(time.Second), busy.Round(time.Second))
	if !good {
		fmt.Fprintln(r.out, "FAIL")
	}
}

// tellLeft shows the processes that tests did not end.
func (r *report) tellLeft(list []string) {
	if len(list) > 0 {
		fmt.Fprintf(r.out, "\nLeft by tests, and ended now:\n  %s\n", strings.Join(list, "\n  "))
	}
}

func (r *report) tellSlowest() {
	leaves := slices.DeleteFunc(slices.Clone(r.times), func(x took) bool { return r.parents[x.test] })
	slices.SortStableFunc(leaves, func(a, b took) int { return cmp.Compare(b.seconds, a.seconds) })
	if len(leaves) == 0 {
		return
	}
	fmt.Fprintln(r.out, "\nThe slowest tests:")
	for _, x := range leaves[:min(slowest, len(leaves))] {
		fmt.Fprintf(r.out, "%8.1f s  %s %s\n", x.seconds, x.pkg, x.name)
	}
}

func (r *report) tellSkipped() {
	if len(r.skipped) == 0 {
		return
	}
	fmt.Fprintln(r.out, "\nNot run:")
	w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  TESTS\tWHERE\tWHY")
	for _, why := range slices.Sorted(maps.Keys(r.skipped)) {
		byPackage := map[string][]string{}
		for _, at := range r.skipped[why] {
			byPackage[at.pkg] = append(byPackage[at.pkg], at.name)
		}
		for _, pkg := range slices.Sorted(maps.Keys(byPackage)) {
			where := pkg
			if names := byPackage[pkg]; len(names) == 1 {
				where += " " + names[0]
			}
			fmt.Fprintf(w, "  %d\t%s\t%s\n", len(byPackage[pkg]), where, why)
		}
	}
	_ = w.Flush() // to where everything goes
}
