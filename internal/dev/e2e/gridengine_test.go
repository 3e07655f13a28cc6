//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/ptytest"
	"tunctl/internal/dev/real"
	"tunctl/internal/dev/wait"
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
	wait.Until(t, "its job is gone", l.noJobOnGridEngine)
	runsOnGridEngine(l)
	wait.Until(t, "no job is left", l.noJobOnGridEngine)
}

func (l *laptop) noJobOnGridEngine() bool {
	out, err := l.lab.As("hpcuser", "qstat", "-s", "pr")
	return err == nil && !strings.Contains(out, "hpcuser")
}

// runsOnGridEngine runs commands in jobs of their own: one that fails, and one that the user ends; and shows
// what is free beside the second.
func runsOnGridEngine(l *laptop) {
	t := l.t
	const lines = 200_000
	cmd := l.command("run", "jupyter", "--", "sh", "-c", fmt.Sprintf("seq %d; echo \"$1\"; exit 3", lines), "sh", "ü\n'\"#$ -q none")
	var out, talk, want strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &talk
	for n := range lines {
		fmt.Fprintln(&want, n+1)
	}
	want.WriteString("ü\n'\"#$ -q none\n")
	if _ = cmd.Run(); cmd.ProcessState.ExitCode() != 3 || out.String() != want.String() {
		t.Errorf("exit %d, %d bytes of %d\n%s", cmd.ProcessState.ExitCode(), out.Len(), want.Len(), talk.String())
	}

	wait.Until(t, "its job is gone", l.noJobOnGridEngine) // else its slot may be freed between the two answers that are compared
	k := ptytest.Start(t, l.command("run", "jupyter", "--with", "gpus=1", "--with", "cpus=1", "--", "sh", "-c", "echo begun; sleep 600"))
	k.Expect("begun")
	var free []api.Free
	text, _ := l.run("free", "lab-login", "--json")
	if err := json.Unmarshal([]byte(text), &free); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	table, _ := l.run("free", "lab-login")
	load, err := l.lab.As("hpcuser", "qstat", "-g", "c")
	t.Logf("what a person sees:\n%s\nwhat qstat -g c says: %v\n%s", table, err, load)
	for _, q := range free[0].Partitions {
		fields := strings.Fields(load[strings.Index(load, "\n"+q.Name+" ")+1:]) // name, load, used, reserved, available, total
		if q.Name == "all.q" && (q.FreeGPUs != 1 || fmt.Sprint(q.FreeCPUs) != fields[4] || fmt.Sprint(q.CPUs) != fields[5]) {
			t.Errorf("%+v beside %v", q, fields)
		}
	}
	k.Type("\x03")
	k.Reply("End job", "y")
	k.Expect("was cancelled")
	k.WantEnd(130)
}
