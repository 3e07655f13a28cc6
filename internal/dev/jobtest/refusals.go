package jobtest

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

// Refused is the error of a submit command that prints text and fails.
func Refused(t *testing.T, known []sched.Message, text string) *api.Error {
	t.Helper()
	err, ok := errors.AsType[*api.Error](sched.RefusalError(remote.Result{Exit: 1, Stderr: []byte(text)}, known))
	if !ok || err.Code != api.CodeSubmit {
		t.Fatalf("%q: %#v", text, err)
	}
	return err
}

// remedyWords identify a remedy: the options it names, and other things the user can do.
var remedyWords = regexp.MustCompile(`(?:^|[ ;,])(--?[A-Za-z][a-z-]*)|\b(wait|later|seconds|login node|dos2unix|fewer|lower|shorten|tell the site|cancel one|ask for less|another account|home folder)\b|(#!)`)

func remedies(text string) []string {
	var words []string
	for _, m := range remedyWords.FindAllStringSubmatch(text, -1) {
		words = append(words, m[1]+m[2]+m[3])
	}
	return words
}

// CheckRefusals checks that every known refusal of these schedulers gets its cause and remedy: those of
// testdata/refusals.tsv, and of the folder that TUNCTL_CAPTURES names.
func CheckRefusals(t *testing.T, known []sched.Message, schedulers ...string) {
	t.Helper()
	var files []string
	for _, folder := range []string{"testdata", os.Getenv("TUNCTL_CAPTURES")} {
		file := filepath.Join(folder, "refusals.tsv")
		if _, err := os.Stat(file); folder != "" && err == nil {
			files = append(files, file)
		}
	}
	for _, file := range files {
		rows := refusalRows(t, file)
		if len(rows) == 0 {
			t.Errorf("%s has no refusals", file)
		}
		for _, row := range rows {
			if !slices.Contains(schedulers, row["scheduler"]) {
				continue
			}
			got := Refused(t, known, row["text"])
			if strings.Contains(got.Message, "usage:") || strings.Contains(got.Message, ": sbatch: ") || strings.Contains(got.Message, ": qsub: ") {
				t.Errorf("%s: %q became %q", filepath.Base(file), row["text"], got.Message)
			}
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
