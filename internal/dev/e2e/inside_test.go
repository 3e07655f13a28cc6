package e2e

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
)

// servingJob serves files on the first of its nodes, with a variable of its own.
const servingJob = `#!/bin/bash
#SBATCH --job-name=serving --time=10 --nodes=2 --output=/home/hpcuser/serving.%j.log
export OF_THE_JOB='its own'
exec python3 -u -m http.server 0
`

const servingConfig = `
[session.jupyter]
host  = "lab-login"
job   = "serving"
local = PORT
`

func TestEveryToolWorksInsideAJobOnRealSlurm(t *testing.T) {
	real.Need(t, "ssh", "slurm")
	t.Parallel()
	g := newGuest(t, servingConfig)
	const host = "jupyter.tun"
	g.refused(host, "session jupyter is down", "`tunctl up jupyter`")
	g.lab.StopSSHD("cn01") // a site without sshd on its nodes
	if _, err := g.lab.Exec("login1", "bash", "-c", "exec 3<>/dev/tcp/cn01/22"); err == nil {
		t.Error("the node has an sshd")
	}
	if out, err := g.lab.Exec("login1", "sh", "-c", "echo ulimit -S -c 7 >>/home/hpcuser/.profile"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	job := g.lab.Submit(servingJob)
	g.lab.WaitJob(job, "RUNNING")
	_, talk := g.run("up", "jupyter", "--no-open")
	t.Logf("what a person sees:\n%s", talk)

	const show = `echo "$SLURM_JOB_ID $OF_THE_JOB $(hostname)"`
	want := job + " its own cn01\n"
	if out := g.ssh(host, show); out != want {
		t.Errorf("ssh: %q, want %q", out, want)
	}
	if out, talk := g.run("ssh", "jupyter", show); out != want || talk != "" {
		t.Errorf("tunctl ssh: %q and %q, want %q", out, talk, want)
	}
	if out := g.ssh(host, "[ -t 1 ] || echo pipe; printf partial"); out != "pipe\npartial" {
		t.Errorf("without a terminal: %q", out)
	}
	if out := g.ssh(host, "ulimit -c"); out != "7\n" {
		t.Errorf("core files of %q, not as under srun by hand", out)
	}
	if out := g.ssh("-tt", host, "tty; exit 0"); !strings.Contains(out, "/dev/pts/") {
		t.Errorf("a terminal: %q", out)
	}
	for name, cmd := range map[string]*exec.Cmd{
		"ssh": g.program("ssh", "-F", g.sshConfig, host, "exit 7"), "tunctl ssh": g.command("ssh", "jupyter", "exit 7"),
	} {
		if exit, ok := errors.AsType[*exec.ExitError](cmd.Run()); !ok || exit.ExitCode() != 7 {
			t.Errorf("%s: %v, want exit status 7", name, exit)
		}
	}
	if out, _ := g.run("ssh", "--login-node", "jupyter", "hostname"); out != "login1\n" {
		t.Errorf("the login node: %q", out)
	}
	if out := g.ssh("1."+host, "echo $SLURM_JOB_ID $(hostname)"); out != job+" cn02\n" {
		t.Errorf("the other node: %q", out)
	}
	if out := g.ssh("cn02.lab-login.tun", "hostname"); out != "cn02\n" {
		t.Errorf("the other node by its own name: %q", out)
	}
	binary := make([]byte, 1<<20)
	_, _ = rand.Read(binary)
	cat := g.program("ssh", "-F", g.sshConfig, host, "cat")
	cat.Stdin = bytes.NewReader(binary)
	if out, err := cat.Output(); err != nil || !bytes.Equal(out, binary) {
		t.Errorf("%d of %d bytes came back right: %v", prefix(out, binary), len(binary), err)
	}
	g.copies(host, "jupyter")

	g.lab.Cancel(job)
	g.until("ended", is(api.SessionEnded))
	g.refused(host, "job "+job+" was cancelled at ", "start the job on lab-login, then `tunctl up jupyter` finds it")
}

// refused checks that ssh fails at once, with words that tell why and what to run.
func (g *guest) refused(host string, words ...string) {
	g.t.Helper()
	cmd := g.program("ssh", "-F", g.sshConfig, host, "true")
	var talk bytes.Buffer
	cmd.Stderr = &talk
	if exit, ok := errors.AsType[*exec.ExitError](cmd.Run()); !ok || exit.ExitCode() != 255 {
		g.t.Errorf("ssh %s: %v, want exit status 255", host, exit)
	}
	for _, w := range words {
		if !strings.Contains(talk.String(), w) {
			g.t.Errorf("ssh %s says %q, without %q", host, talk.String(), w)
		}
	}
}
