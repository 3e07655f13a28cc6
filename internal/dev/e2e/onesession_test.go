package e2e

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/dev/real"
)

// singleSite forbids a second session on a connection, and its compute nodes are said not
// to see the home folder and to be dialled by their addresses.
const singleSite = `like = "slurm"
title = "One session"
private = "/home/{user}/work/.tunctl"
dial = ["{address}"]
require = ["--account=PROJECT"]
[limits]
sessions = 1
`

func TestASiteThatAllowsOneSessionServesANotebookAndRefusesNone(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter")
	t.Parallel()
	l := newQuietLaptop(t, strings.ReplaceAll(siteConfig("single", "hours = 1"), "lab-login", "lab-single"))
	sites := filepath.Join(l.home, "sites")
	if err := os.MkdirAll(sites, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(sites, "single.toml"), []byte(singleSite), 0o600); err != nil {
		t.Fatal(err)
	}
	_, talk := l.run("up", "--no-open")
	t.Logf("what a person sees:\n%s", talk)
	s := l.status()
	// The server may begin to listen between the first name and the next.
	if want := l.lab.NodeAddr(s.Job.Node); s.Endpoint == nil || s.Endpoint.Host != want && !strings.Contains(talk, want+":") {
		t.Errorf("dialled %+v, want %s first", s.Endpoint, want)
	}
	base, token := l.page()
	base = base.JoinPath("jupyter")

	// A shell takes the only session; the page's connections are no sessions.
	shell := l.command("ssh", "lab-single", "echo held; cat")
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held\n" {
		t.Errorf("the shell: %q, %v", line, err)
	}
	answersWithToken(t, base, token)
	kernelRuns(t, base, token)
	_ = in.Close()
	if err := shell.Wait(); err != nil {
		t.Errorf("the shell: %v", err)
	}
	tokenIsPrivate(t, l, s.Job.ID, token)
	files, err := l.lab.As("hpcuser", "sh", "-c", `cd /home/hpcuser/work/.tunctl && stat -c '%a %U' . && ls -d */jupyter.sh job."$1"/token`, "sh", s.Job.ID)
	if err != nil || !strings.HasPrefix(files, "700 hpcuser\n") {
		t.Errorf("the private folder: %q, %v", files, err)
	}
	l.run("down", "--cancel")
	if log, err := l.lab.Exec("login1", "cat", "/var/log/lab-single.log"); err != nil || strings.Contains(log, "no more sessions") {
		t.Errorf("sshd refused a session: %v\n%s", err, log)
	}
}
