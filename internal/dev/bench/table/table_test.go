package table

import (
	"bytes"
	"strings"
	"testing"
)

func TestPrintRuns(t *testing.T) {
	t.Setenv(runsFolder, t.TempDir())
	var last string
	for _, ours := range []float64{90, 50, 70} {
		var out bytes.Buffer
		busy := AtMost("wait", "ssh", "ms", 10, ours, 2)
		if ours == 90 {
			busy = NotJudged("2 % of the time was stolen", busy)[0]
		}
		Print(&out, []Row{AtLeast("speed", "ssh -L", "MB/s", 100, ours, 0.6), busy})
		last = out.String()
	}
	fields := func(line string) string { return strings.Join(strings.Fields(line), " ") }
	lines := strings.Split(last, "\n")
	if got, want := fields(lines[1]), "speed ssh -L 100 MB/s 70.00 MB/s 0.70 × 0.50 to 0.90 × ≥ 0.60 × reached"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := fields(lines[2]), "wait ssh 10.00 ms 50.00 ms 5.00 × 5.00 to 7.00 × ≤ 2.00 × MISSED"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPrintGrowthRuns(t *testing.T) {
	t.Setenv(runsFolder, t.TempDir())
	var last string
	for _, cost := range []float64{10, 30, 20} {
		var out bytes.Buffer
		PrintGrowth(&out, []Growth{{Measure: "jobs", Unit: "ms", Sizes: []float64{1, 10}, Costs: []float64{1, cost}}})
		last = out.String()
	}
	if want := "2.00 ×  1.00 to 3.00 ×  ≤ 1.5 ×  GROWS FASTER"; !strings.Contains(last, want) {
		t.Errorf("%q does not have %q", last, want)
	}
}
