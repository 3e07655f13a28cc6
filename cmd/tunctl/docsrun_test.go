//go:build unix

package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// notRun are the commands of the documentation that a test cannot run as they are, by their
// first words, with the reason.
var notRun = map[string]string{
	"make ":                      "a target may install, build or run everything: another test looks them up in the Makefile, and CI runs the main ones",
	"code ":                      "it is VS Code, which is not ours to install; ssh, which it runs, is tried",
	"bin/tunctl --config lab":    "it needs the cluster of real parts, which the tests of internal/dev/e2e have",
	"tunctl tray":                "it needs a desktop, which the tests of internal/dev/e2e have",
	"tunctl mcp approve":         "it needs a terminal, and an assistant that asks: another test has both",
	"tunctl agent run":           "it is the agent itself, which every other command here talks to",
	"tunctl up jupyter --with":   "its job runs already, with its own choices: the script with.txtar starts jobs with others",
	"tunctl up jupyter --again":  "as for --with",
	"tunctl up jupyter --as":     "it starts a second job, and then others are asked which one they mean: the script with.txtar does it",
	"tunctl init cvl-uwa --host": "ADDRESS is what the site's portal shows for a desktop of one's own",
}

// asked are the commands that ask a person, with the flags that answer for one.
var asked = map[string]string{
	"tunctl init":             "narval --user student --with account=def-bob --no-login",
	"tunctl init --app shell": "narval --user student --with account=def-bob --no-login",
	"tunctl init narval":      "--user student --with account=def-bob --no-login",
	"tunctl init aspire2a":    "--user student --entrance nus --no-login",
	"tunctl init dfki":        "--user student --with image=/enroot/pytorch.sqsh --no-login",
	"tunctl init pegasus":     "--user student --entrance pegasus1 --with image=/enroot/pytorch.sqsh --no-login",
	"tunctl init m3":          "--user student --with account=ab12 --no-login",
	"tunctl init sdumont":     "--user student --with folder=/scratch/x/ann --with partition=sequana_cpu --no-login",
	"tunctl init myhost":      "--scheduler slurm --no-login",
	"tunctl init ourlab":      "--user student --with account=def-bob --no-login",
	"tunctl init --host ann@gpu7.example.org --scheduler none": "--no-login",
	"tunctl cancel narval JOB":                                 "--yes",
}

// endless are the commands that run until Ctrl-C, with a word of their first message.
var endless = map[string]string{
	"tunctl status --watch":         "jupyter",
	"tunctl status --watch jupyter": "jupyter",
	"tunctl logs -f":                "http://",
	"tunctl demo":                   "http://localhost:",
}

// TestEveryCommandInTheDocumentationRuns is a reader who tries what the pages show, in
// the order of each page: at a practice cluster that goes by the names of the pages,
// with a notebook up whenever a command begins.
func TestEveryCommandInTheDocumentationRuns(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	all, done, spared := pages(t), map[string]bool{}, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, line := range shownLines(all[name]) {
			if begins, found := spare(line); found {
				spared[begins] = true
				continue
			}
			line = r.name(line)
			if done[line] || strings.Contains(line, "…") { // … is any word, in what an error says
				continue
			}
			done[line] = true
			t.Run(line, func(t *testing.T) { r.try(t, line) })
		}
	}
	for begins := range notRun {
		if !spared[begins] {
			t.Errorf("no page has %q any more: remove it from the list", begins)
		}
	}
	for _, list := range []map[string]string{asked, endless} {
		for line := range list {
			if !done[line] {
				t.Errorf("no page has %q any more: remove it from the list", line)
			}
		}
	}
	if len(done) < 60 {
		t.Errorf("only %d commands were found: the pages are not read right", len(done))
	}
}

func spare(line string) (begins string, found bool) {
	for begins := range notRun {
		if strings.HasPrefix(line+" ", begins) {
			return begins, true
		}
	}
	return "", false
}
