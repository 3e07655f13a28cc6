package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
)

const choicesConfig = `
[session.jupyter]
host   = "lab-login"
job    = "notebook-of-choice"
submit = "~/jupyter.sh"
args   = ["--job-name=notebook-of-choice", "--time=30", "--mem=300M"]
local  = PORT

[session.wrapped]
host   = "lab-login"
submit = "~/jupyter.sh"
args   = ["--time=30", "--mem=300M", "--comment=no-test"]
`

// preview is what `tunctl up --dry-run` says about one job.
func (l *laptop) preview(args ...string) api.Preview {
	l.t.Helper()
	out, _ := l.run(append([]string{"up", "--dry-run", "--json"}, args...)...)
	var p api.Preview
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		l.t.Fatalf("%v\n%s", err, out)
	}
	return p
}

// session is a session as the agent has it now.
func (l *laptop) session(name string) api.Session {
	l.t.Helper()
	st, err := l.client.Status(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	s, _ := st.Session(name)
	return s
}

func TestAJobIsTestedAndTwoRunSideBySideWithTheirChoicesOnRealSlurm(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter")
	t.Parallel()
	l := newQuietLaptop(t, choicesConfig)

	p := l.preview("jupyter", "--with", "hours=0.2")
	if p.Start.IsZero() || time.Until(p.Start) > time.Hour || !strings.Contains(p.Command, "--time=00:12:00") || p.Cost == "" || !strings.Contains(p.Script, "jupyter") {
		t.Errorf("tested as %+v", p)
	}
	out, err := l.command("up", "jupyter", "--dry-run", "--with", "partition=nosuch").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the scheduler would refuse it") || !strings.Contains(string(out), "partition") {
		t.Errorf("a partition that does not exist: %v\n%s", err, out)
	}

	l.run("up", "jupyter", "--no-open", "--with", "hours=0.2")
	_, talk := l.run("up", "jupyter", "--as", "jupyter2", "--no-open", "--with", "hours=0.3")
	t.Logf("what a person sees:\n%s", talk)
	first, second := l.session("jupyter"), l.session("jupyter2")
	for _, s := range []struct {
		session api.Session
		limit   time.Duration
	}{{first, 12 * time.Minute}, {second, 18 * time.Minute}} {
		if s.session.State != api.SessionReady || s.session.Job.End.Sub(s.session.Job.Start) != s.limit {
			t.Errorf("%s: %+v, job %+v", s.session.Name, s.session, s.session.Job)
		}
	}
	if first.Job.ID == second.Job.ID || first.Local == second.Local || second.Of != "jupyter" || second.Job.Name != "jupyter2" || second.With["hours"] != "0.3" {
		t.Errorf("first %+v\nsecond %+v", first, second)
	}
	l.run("agent", "restart")
	for _, was := range []api.Session{first, second} {
		l.untilSession(was.Name, func(s api.Session) bool {
			return s.State == api.SessionReady && s.Job.ID == was.Job.ID && s.Local == was.Local && s.With["hours"] == was.With["hours"]
		})
	}
	out, err = l.command("up", "jupyter", "--no-open", "--with", "hours=1").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is already running, with hours=0.2") {
		t.Errorf("other choices: %v\n%s", err, out)
	}
	l.run("down", "jupyter2", "--cancel")
	l.run("down", "jupyter", "--cancel")

	l.lab.WrapSbatch(real.SbatchWithoutTest)
	p = l.preview("wrapped")
	if !p.Start.IsZero() || !strings.Contains(p.Why, "cancelled at once") {
		t.Errorf("a wrapper drops --test-only: %+v", p)
	}
	_, id, _ := strings.Cut(p.Why, "submitted job ")
	id, _, _ = strings.Cut(id, ",")
	l.lab.WaitJob(id, "CANCELLED")
	l.run("agent", "restart")
	l.run("login", "lab-login")
	if p = l.preview("wrapped"); !strings.Contains(p.Why, "not asked") {
		t.Errorf("it is tried again: %+v", p)
	}
}

// untilSession waits until a session is as wanted.
func (l *laptop) untilSession(name string, want func(api.Session) bool) {
	l.t.Helper()
	for deadline := time.Now().Add(patience); !want(l.session(name)); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			l.t.Fatalf("%s: %+v", name, l.session(name))
		}
	}
}
