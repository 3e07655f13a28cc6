package e2e

import (
	"archive/zip"
	"context"
	"encoding/json"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
)

const keepConfig = `
[session.jupyter]
host   = "lab-login"
submit = "~/jupyter.sh"
args   = ["--time=1", "--mem=100M"]
local  = PORT
keep   = true
`

// TestKeepHasTheNextJobReadyThroughTwoEndsOnRealSlurm takes two minutes and more: Slurm
// has no time limit below one minute.
func TestKeepHasTheNextJobReadyThroughTwoEndsOnRealSlurm(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter")
	t.Parallel()
	l := newQuietLaptop(t, strings.Replace(keepConfig, "--time=1", "--time=30", 1))
	began := time.Now()
	l.run("up", "--no-open", "--with", "hours=0.01") // a minute, which all three jobs have
	first := l.status()
	announced, _ := l.until("followed by another job", func(s api.Session) bool { return s.Next != nil })
	if announced.Job.ID != first.Job.ID || announced.State != api.SessionReady {
		t.Errorf("the page left job %s before its end: %+v", first.Job.ID, announced)
	}
	t.Logf("job %s is queued to follow job %s after %v", announced.Next.ID, first.Job.ID, time.Since(began).Round(time.Second))
	second, states := l.until("ready on the next job", func(s api.Session) bool {
		return s.State == api.SessionReady && s.Job.ID == announced.Next.ID
	})
	t.Logf("the first end, after %v:\n%s", time.Since(began).Round(time.Second), strings.Join(states, "\n"))
	third, states := l.until("ready on the one after", func(s api.Session) bool {
		return s.State == api.SessionReady && s.Job.ID != second.Job.ID
	})
	t.Logf("the second end, after %v:\n%s", time.Since(began).Round(time.Second), strings.Join(states, "\n"))
	if first.Local != third.Local {
		t.Errorf("the address moved from %s to %s", first.Local, third.Local)
	}
	base, token := l.page()
	answersWithToken(t, base, token)
	l.run("down", "--cancel")
	l.wantHistory(map[string]api.JobState{first.Job.ID: api.JobTimeout, second.Job.ID: api.JobTimeout, third.Job.ID: api.JobCancelled})
	l.nothingLeft(third)
}

// wantHistory checks how jobs ended, by id. One that was just cancelled may take a while to end.
func (l *laptop) wantHistory(want map[string]api.JobState) {
	l.t.Helper()
	var out string
	for begun := time.Now(); len(want) > 0 && time.Since(begun) < patience; pause(l.t, 100*time.Millisecond) {
		out, _ = l.run("history", "--json")
		var runs []api.Run
		if err := json.Unmarshal([]byte(out), &runs); err != nil {
			l.t.Fatal(err)
		}
		for _, r := range runs {
			if state, ok := want[r.Job.ID]; ok && state != r.Job.State {
				l.t.Errorf("job %s is in the history as %s, want %s", r.Job.ID, r.Job.State, state)
			}
			delete(want, r.Job.ID)
		}
	}
	if len(want) > 0 {
		l.t.Errorf("the history lacks %v:\n%s", want, out)
	}
}

func TestTheEndIsToldAndAnExtensionRefusedOnRealSlurm(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter")
	t.Parallel()
	l := newQuietLaptop(t, strings.NewReplacer("--time=1", "--time=3", "keep   = true", "").Replace(keepConfig))
	l.run("up", "--no-open")
	told := l.notice("ends in 2 min")
	s := l.status()
	if !strings.Contains(s.Cause, " ends at ") || !strings.Contains(s.Hint, "tunctl extend") {
		t.Errorf("%s\ncause %q, hint %q", told, s.Cause, s.Hint)
	}
	if left := time.Until(s.Job.End); left > 2*time.Minute || left < time.Minute {
		t.Errorf("told %v before the end", left)
	}
	out, err := l.command("extend", "jupyter", "1h").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Access/permission denied") {
		t.Errorf("extend: %v\n%s", err, out)
	}
	out, err = l.command("doctor", "jupyter").CombinedOutput()
	if err != nil {
		t.Errorf("doctor: %v\n%s", err, out)
	}
	t.Logf("%s\n%s", told, out)
	l.bundleIsClean()
	l.run("down", "--cancel")
	l.nothingLeft(s)
}

// bundleIsClean packs a bug report and searches it for every secret of the lab.
func (l *laptop) bundleIsClean() {
	l.t.Helper()
	_, token := l.page()
	secrets := append(l.lab.Secrets(), token, "hpcuser")
	path := filepath.Join(l.t.TempDir(), "report.zip")
	l.run("doctor", "--bundle", path)
	bundle, err := zip.OpenReader(path)
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = bundle.Close() }()
	for _, file := range bundle.File {
		text, err := fs.ReadFile(bundle, file.Name)
		if err != nil {
			l.t.Fatal(err)
		}
		for _, secret := range secrets {
			if strings.Contains(string(text), secret) {
				l.t.Errorf("%s of the bundle has %q", file.Name, secret)
			}
		}
	}
}

// notice waits for a notice with these words.
func (l *laptop) notice(words string) string {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	text := ""
	_ = l.client.Watch(ctx, api.AnswersNone, "", func(e api.Event) { // it ends by our cancel
		if e.Notice != nil && strings.Contains(e.Notice.Text, words) {
			text = e.Notice.Text
			cancel()
		}
	})
	if text == "" {
		l.t.Fatalf("nobody said %q", words)
	}
	return text
}
