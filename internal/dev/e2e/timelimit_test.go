package e2e

import (
	"archive/zip"
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
args   = ["--time=30", "--mem=300M"]
local  = PORT
keep   = true
`

// TestKeepHasTheNextJobReadyOnRealSlurm takes a minute and more: Slurm has no time limit below
// one minute.
func TestKeepHasTheNextJobReadyOnRealSlurm(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter")
	t.Parallel()
	l := newQuietLaptop(t, keepConfig)
	began := time.Now()
	l.run("up", "--no-open", "--with", "hours=0.01") // a minute, which both jobs have
	first := l.status()
	announced, _ := l.until("followed by another job", func(s api.Session) bool { return s.Next != nil })
	if announced.Job.ID != first.Job.ID || announced.State != api.SessionReady {
		t.Errorf("the page left job %s before its end: %+v", first.Job.ID, announced)
	}
	second, states := l.until("ready on the next job", func(s api.Session) bool {
		return s.State == api.SessionReady && s.Job.ID == announced.Next.ID
	})
	t.Logf("ready on the next job after %v:\n%s", time.Since(began).Round(time.Second), strings.Join(states, "\n"))
	if first.Local != second.Local {
		t.Errorf("the address moved from %s to %s", first.Local, second.Local)
	}
	base, token := l.page()
	answersWithToken(t, base, token)
	l.run("down", "--cancel")
	l.wantHistory(map[string]api.JobState{first.Job.ID: api.JobTimeout, second.Job.ID: api.JobCancelled})
	l.nothingLeft(second)
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
