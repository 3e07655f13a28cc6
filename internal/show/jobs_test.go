package show

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/term"
)

func TestATableOfJobsFitsEightyColumnsAndSaysWhy(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 15, 14, 0, 0, 0, time.UTC)
	jobs := []api.HostJob{
		{Host: "narval", Job: api.Job{ID: "12345678.pbs101", Name: "a-very-long-name-of-a-job-that-says-everything", State: api.JobRunning, Node: "x1000c0s2b0n0", End: now.Add(50 * time.Hour)}},
		{Host: "narval", Job: api.Job{ID: "12345679_[0-99%5]", Name: "sweep", State: api.JobQueued, Reason: "Resources", Hint: "waiting for free nodes", Submitted: now.Add(-time.Hour)}},
		{Host: "narval", Job: api.Job{ID: "3", State: api.JobFinished, End: now.Add(-240 * time.Hour)}},
	}
	text := Jobs(jobs, false, now).Draw(term.Layout{Width: 80})
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{"12345678.pbs101", "x1000c0s2b0n0", "until ", "12345679_[0-99%5]", "since ", "waiting for free nodes", "ended 5 Nov"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestJobFacts(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.Local)
	j := api.Job{ID: "7", State: api.JobQueued, Reason: "Priority", Hint: "other jobs come first", Limit: 90 * 60, Asks: "account=def,cpu=4,mem=16G"}
	facts := map[string]string{}
	for _, fact := range JobFacts(j, "m3", now) {
		facts[fact[0]] = fact[1]
	}
	for name, want := range map[string]string{"time limit": "1 h 30 min", "asks for": "account=def,cpu=4,mem=16G", "reason": "other jobs come first"} {
		if facts[name] != want {
			t.Errorf("%s: %q, want %q", name, facts[name], want)
		}
	}
	j.State, j.End = api.JobRunning, now.Add(time.Hour)
	if got := JobFacts(j, "m3", now); !slices.Contains(got, [2]string{"time limit", "2026-03-02 13:00"}) {
		t.Errorf("of one that runs: %q", got)
	}
}

func TestJobsSayAnEndOnce(t *testing.T) {
	for reason, want := range map[string]string{"finished": "", "FINISHED by 2001": "", "and terminated by root": "and terminated by root"} {
		if got := Why(api.Job{State: api.JobFinished, Reason: reason}); got != want {
			t.Errorf("%q: %q", reason, got)
		}
	}
	exit := 3
	for hint, want := range map[string]string{"the script ended with exit status 3: see the log": "the script ended with exit status 3: see the log", "ask for more memory": "exit status 3; ask for more memory", "": "exit status 3"} {
		if got := Why(api.Job{State: api.JobFailed, Exit: &exit, Hint: hint}); got != want {
			t.Errorf("hint %q: %q", hint, got)
		}
	}
}

func TestHistorySaysAnUnknownEnd(t *testing.T) {
	text := History([]api.Run{
		{Session: "nb", Job: api.Job{ID: "7", State: api.JobFinished, Reason: api.ReasonGone}},
		{Session: "nb", Job: api.Job{ID: "8", State: api.JobFinished}},
	}).Draw(term.Layout{Width: 80})
	if strings.Count(text, "ended") != 1 || strings.Count(text, "finished") != 1 {
		t.Errorf("%s", text)
	}
}
