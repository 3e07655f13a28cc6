package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
)

// boardJob has a page for everybody, and another one on its node's loopback that its log
// announces as TensorBoard does.
const boardJob = `#!/bin/bash
#SBATCH --job-name=board --time=10 --nodelist=cn01 --output=/home/hpcuser/board.%j.log
mkdir -p /tmp/board && cd /tmp/board && echo 'the board' >index.html
python3 -m http.server --bind 127.0.0.1 6006 >/dev/null 2>&1 &
until (echo >/dev/tcp/127.0.0.1/6006) 2>/dev/null; do sleep 0.1; done
echo 'TensorBoard 2.16.2 at http://localhost:6006/ (Press CTRL+C to quit)'
echo 'Starting development server at http://cn01:8123/'
cd / && exec python3 -u -m http.server 8123 >/dev/null 2>&1
`

const boardConfig = `
[session.jupyter]
host    = "lab-login"
job     = "board"
app     = "http"
local   = PORT
forward = ["0:6006"]
`

func TestThePortsOfAJobAreForwardedOnRealSlurm(t *testing.T) {
	real.Need(t, "ssh", "slurm")
	t.Parallel()
	l := newLaptop(t, boardConfig)
	l.lab.StopSSHD("cn01") // a site without sshd on its nodes
	job := l.lab.Submit(boardJob)
	l.lab.WaitJob(job, "RUNNING")
	_, talk := l.run("up", "jupyter", "--no-open")
	t.Logf("what a person sees:\n%s", talk)
	now := l.status()
	if len(now.Forwards) != 2 || now.Forwards[1].Target != "localhost:6006" {
		t.Fatalf("the forwards are %+v", now.Forwards)
	}
	l.shows("the forward of the config", "http://"+now.Forwards[1].Listen+"/")
	if len(now.Endpoints) != 1 || now.Endpoints[0].Name != "tensorboard" || now.Endpoints[0].URL != "" {
		t.Fatalf("the other pages are %+v", now.Endpoints)
	}
	page, _ := l.run("open", "jupyter", "--which", "tensorboard", "--print")
	l.shows("the other page", strings.TrimSpace(page))
	added, _ := l.run("forward", "jupyter", "0:6006", "--bind", "127.0.0.2")
	l.shows("the forward of the command line", "http://"+strings.TrimSpace(added)+"/")

	l.lab.Cancel(job)
	l.until("ended", is(api.SessionEnded))
}

// shows checks that the board is at an address.
func (l *laptop) shows(what, url string) {
	l.t.Helper()
	res, err := (&http.Client{Timeout: patience}).Get(url)
	if err != nil {
		l.t.Errorf("%s: %v", what, err)
		return
	}
	defer func() { _ = res.Body.Close() }()
	if text, err := io.ReadAll(res.Body); string(text) != "the board\n" {
		l.t.Errorf("%s shows %q, %v", what, text, err)
	}
}
