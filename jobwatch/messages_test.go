package jobwatch

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// refused is the error of a submit command that prints text and fails.
func refused(t *testing.T, scheduler, text string) *api.Error {
	t.Helper()
	known := map[string][]sched.RefusalHint{"slurm": slurmRefusals, "pbs": pbsRefusals, "torque": pbsRefusals, "gridengine": geRefusals}[scheduler]
	err, ok := errors.AsType[*api.Error](sched.RefusalError(remote.Result{Exit: 1, Stderr: []byte(text)}, known))
	if !ok || err.Code != api.CodeSubmit {
		t.Fatalf("%q: %#v", text, err)
	}
	return err
}

// remedyWords identify a remedy: the options it names, and other things a person can do.
var remedyWords = regexp.MustCompile(`(?:^|[ ;,])(--?[A-Za-z][a-z-]*)|\b(wait|later|seconds|login node|dos2unix|fewer|lower|shorten|tell the site|cancel one|ask for less|another account|home folder)\b|(#!)`)

func remedies(text string) []string {
	var words []string
	for _, m := range remedyWords.FindAllStringSubmatch(text, -1) {
		words = append(words, m[1]+m[2]+m[3])
	}
	return words
}

func TestEveryPatternCompiles(*testing.T) {
	patterns := []func() *regexp.Regexp{anyKey, tailKey, lineKey, freeKey, firstFree}
	for _, k := range slices.Concat(slurmRefusals, pbsRefusals, geRefusals, sched.CommonRefusals) {
		patterns = append(patterns, k.Words)
	}
	for _, w := range slices.Concat(geWaits, pbsReasons) {
		patterns = append(patterns, w.Part)
	}
	for _, p := range patterns {
		p() // panics if it is no pattern
	}
}

func TestEveryKnownRefusalGetsItsCauseAndRemedy(t *testing.T) {
	files := []string{filepath.Join("testdata", "refusals.tsv")}
	if folder := os.Getenv("TUNCTL_CAPTURES"); folder != "" {
		file := filepath.Join(folder, "refusals.tsv")
		if _, err := os.Stat(file); err == nil {
			files = append(files, file)
		}
	}
	for _, file := range files {
		rows := refusalRows(t, file)
		if len(rows) == 0 {
			t.Errorf("%s has no refusals", file)
		}
		for _, row := range rows {
			got := refused(t, row["scheduler"], row["text"])
			if got.Hint == sched.SiteRuleHint {
				t.Errorf("%s: %q (%s) is not known", filepath.Base(file), row["text"], row["cause"])
				continue
			}
			// One of several remedies is enough.
			want := remedies(row["what_to_do"])
			if len(want) > 0 && !slices.ContainsFunc(want, func(w string) bool { return strings.Contains(got.Hint, w) }) {
				t.Errorf("%s: %q (%s)\n got %q\nwant one of %q of %q", filepath.Base(file), row["text"], row["cause"], got.Hint, want, row["what_to_do"])
			}
		}
		t.Logf("%s: %d refusals", file, len(rows))
	}
}

// refusalRows reads a table of refusals. A line end within a text is written \n.
func refusalRows(t *testing.T, file string) []map[string]string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	head := strings.Split(lines[0], "\t")
	var rows []map[string]string
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, cell := range strings.Split(line, "\t") {
			if i < len(head) {
				row[head[i]] = strings.ReplaceAll(cell, `\n`, "\n")
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func TestASubmitLimitIsNotTakenForATimeLimit(t *testing.T) {
	const policy = "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n"
	for _, reason := range []string{"", "AssocMaxSubmitJobLimit", "QOSMaxSubmitJobPerUserLimit", "AssocGrpCPUMinutesLimit", "Reached jobs per hour limit", "SomethingNewLimit"} {
		text := policy
		if reason != "" {
			text = "sbatch: error: " + reason + "\n" + policy
		}
		if got := refused(t, Slurm, text); strings.Contains(got.Hint, "--time") {
			t.Errorf("%s: %q", reason, got.Hint)
		}
	}
}

func TestASitesOwnTextIsPassedOnWithAHint(t *testing.T) {
	got := refused(t, Slurm, "sbatch: error: Please be kind to your neighbours\nsbatch: error: Batch job submission failed: Unspecified error\n")
	if !strings.Contains(got.Message, "Please be kind to your neighbours") || got.Hint != sched.SiteRuleHint {
		t.Errorf("%q, hint %q", got.Message, got.Hint)
	}
}
