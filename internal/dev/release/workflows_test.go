package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// workflows are the texts of .github/workflows by name. `make lint` checks their syntax.
func workflows(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(source(t), ".github", "workflows", "*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("workflows: %v, %v", files, err)
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = string(text)
	}
	return all
}

// A tag can be moved to other code, a commit cannot. Dependabot renews both.
func TestEveryActionIsPinnedToACommitWithItsVersionBesideIt(t *testing.T) {
	pinned := regexp.MustCompile(`^ *(- )?uses: (actions/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+|\./\.github/workflows/[\w.-]+)$`)
	commits := map[string]string{}
	for name, text := range workflows(t) {
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			_, used, found := strings.Cut(line, "uses:")
			if !found {
				continue
			}
			if !pinned.MatchString(line) {
				t.Errorf("%s: %s", name, strings.TrimSpace(line))
			}
			action, commit, _ := strings.Cut(used, "@")
			if known := commits[action]; known != "" && known != commit {
				t.Errorf("%s: %s is %s and %s", name, action, known, commit)
			}
			commits[action] = commit
		}
	}
}

func TestAWorkflowHasNoRightsButThoseOfItsJobs(t *testing.T) {
	write := regexp.MustCompile(`(?m)^ +([a-z-]+): write\b`)
	for name, text := range workflows(t) {
		if !strings.Contains(text, "\npermissions: {}\n") || !strings.Contains(text, "\nconcurrency:\n") {
			t.Errorf("%s does not begin without rights, or runs twice at once", name)
		}
		if strings.Contains(text, "pull_request_target") || strings.Contains(text, "secrets.") {
			t.Errorf("%s gives the code of strangers rights or secrets", name)
		}
		granted := write.FindAllString(text, -1)
		if name != "release.yml" && len(granted) > 0 {
			t.Errorf("%s may write: %q", name, granted)
		}
		_, jobs, _ := strings.Cut(text, "\njobs:\n")
		if strings.Count(jobs, "runs-on:") != strings.Count(jobs, "timeout-minutes:") {
			t.Errorf("%s has a job without a time limit", name)
		}
		if strings.Count(jobs, "actions/checkout@") != strings.Count(jobs, "persist-credentials: false") {
			t.Errorf("%s leaves a token in a checkout", name)
		}
	}
}
