//go:build linux

package e2e

import (
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
)

func TestANotebookUnderARealGridEngine(t *testing.T) {
	real.Need(t, "ssh", "gridengine", "jupyter")
	t.Parallel()
	lab := real.StartWith(t, real.Options{GridEngine: true})
	l := furnish(t, lab, "")
	t.Cleanup(l.close)
	i := l.init("lab-login", "--with", "hours=1")
	i.Expect("It starts /usr/bin/jupyter")
	i.Expect("Which queue?")
	i.Expect("1) any      the scheduler chooses")
	i.Expect("2) all.q    8 of 8 cores free, GPUs: 2 of 2 free")
	i.Expect("3) short.q  at most 10 min")
	i.answer("[1]: ", "cpus=2")
	i.answer("[1]: ", "")
	i.finish()
	_, talk := l.run("up", "--no-open")
	t.Logf("what a person sees:\n%s", talk)
	s := l.status()
	if s.Job.State != api.JobRunning || s.Job.Node == "" || s.Job.End.IsZero() {
		t.Errorf("the job is %+v", s.Job)
	}
	base, token := l.page()
	base = base.JoinPath("jupyter")
	answersWithToken(t, base, token)
	kernelRuns(t, base, token)
	tokenIsPrivate(t, l, s.Job.ID, token)
	c := &cutter{laptop: l, base: base, token: token}
	const off = 5 * time.Second
	if r := c.lose(outage{happen: roam(off), off: off})["tunctl"]; !r.exact() || r.websockets > 0 {
		t.Errorf("another address during a cell: %+v; websockets: %+v", r, l.status().Websockets)
	}
	if out, _ := l.run("logs", "jupyter"); !strings.Contains(out, "JupyterLab will listen on: cn0") {
		t.Errorf("the log:\n%s", out)
	}
	if out, _ := l.run("jobs", "lab-login"); !strings.Contains(out, s.Job.ID) || !strings.Contains(out, "running") {
		t.Errorf("the jobs:\n%s", out)
	}
	out, err := l.command("extend", "jupyter", "1h").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "cannot be changed") || !strings.Contains(string(out), "keep = true") {
		t.Errorf("extend: %v\n%s", err, out)
	}
	if _, talk := l.run("down", "--cancel"); !strings.Contains(talk, "was cancelled") {
		t.Errorf("down --cancel: %s", talk)
	}
	if out, err := lab.As("hpcuser", "qstat", "-s", "pr"); err != nil || strings.Contains(out, " r ") {
		t.Errorf("still there: %s, %v", out, err)
	}
}
