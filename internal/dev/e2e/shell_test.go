package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
)

const shellConfig = `
[session.jupyter]
host   = "lab-login"
submit = "builtin:shell"
args   = ["--mem=300M", "--cpus-per-task=1", "--nodelist=cn02", "--gres=gpu:1"]
with   = { hours = 1, venv = "/home/hpcuser/shell-venv" }
`

func TestAJobToWorkInIsEnteredAndEndsCleanlyOnRealSlurm(t *testing.T) {
	real.Need(t, "ssh", "slurm")
	t.Parallel()
	g := newGuest(t, shellConfig)
	g.lab.StopSSHD("cn02") // a site without sshd on its nodes
	const venv = "mkdir -p ~/shell-venv/bin && echo 'export OF_THE_VENV=1 PATH=$HOME/shell-venv/bin:$PATH' >~/shell-venv/bin/activate"
	if _, err := g.lab.As("hpcuser", "sh", "-c", venv+"\n"+nvidiaSMI); err != nil {
		t.Fatal(err)
	}
	out, talk := g.run("up", "jupyter")
	t.Logf("what a person sees:\n%s", talk)
	s := g.status()
	if s.State != api.SessionReady || out != "" || s.URL != "" || s.Endpoint != nil || !strings.Contains(talk, "is a shell inside job "+s.Job.ID+" on cn02") {
		t.Errorf("it has a page %+v, or up said %q", s, out+talk)
	}
	const show = `echo "$SLURM_JOB_ID $OF_THE_VENV $(hostname)"`
	if out, want := g.ssh("jupyter.tun", show), s.Job.ID+" 1 cn02\n"; out != want {
		t.Errorf("inside the job: %q, want %q", out, want)
	}

	g.measures("cn02")

	editor, calls := filepath.Join(g.dir, "code"), filepath.Join(g.dir, "calls")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\necho \"$*\" >>"+calls+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	g.run("code", "jupyter", "shell-venv", "--editor", editor)
	called, err := os.ReadFile(calls)
	if want := "--list-extensions\n--folder-uri vscode-remote://ssh-remote+jupyter.tun/home/hpcuser/shell-venv\n"; err != nil || string(called) != want {
		t.Errorf("the editor was called with %q, %v; want %q", called, err, want)
	}

	g.run("down", "jupyter", "--cancel")
	g.lab.WaitJob(s.Job.ID, "CANCELLED")
	gone := `for i in $(seq 1200); do [ -e ~/.tunctl/job.` + s.Job.ID + ` ] || exit 0; sleep 0.1; done; find ~/.tunctl/job.*; exit 1`
	if out, err := g.lab.As("hpcuser", "sh", "-c", gone); err != nil {
		t.Errorf("the job leaves its folder: %v\n%s", err, out)
	}
}
