package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
)

const endIdleConfig = `
[host.lab-login]
scheduler = "slurm"

[session.nb]
host     = "lab-login"
submit   = "builtin:jupyter"
end_idle = "10m"
with     = { hours = 1 }

[session.jupyter]
host   = "lab-login"
submit = "local:SCRIPT"
args   = ["--mem=500M"]
local  = PORT
`

// TestEndIdleOnRealSlurm has the script of a session with another time: that of a config is ten minutes at
// least.
func TestEndIdleOnRealSlurm(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter")
	t.Parallel()
	file := filepath.Join(t.TempDir(), "soon.sh")
	l := newQuietLaptop(t, strings.ReplaceAll(endIdleConfig, "SCRIPT", file))
	script, _ := l.run("script", "nb")
	soon := strings.Replace(script, `"$private" 600 "$$"`, `"$private" 40 "$$"`, 1)
	if soon == script {
		t.Fatal(script)
	}
	soon = strings.Replace(soon, "--output=%x.%j.log", "--output=soon.%j.log", 1)
	if err := os.WriteFile(file, []byte(soon), 0o600); err != nil {
		t.Fatal(err)
	}
	l.run("up", "jupyter", "--no-open")
	base, token := l.page()
	base = base.JoinPath("nb") // the base of the builtin job
	job := l.status().Job.ID
	runs := func(why string) {
		if state := l.lab.WaitJob(job, "RUNNING", "COMPLETING", "COMPLETED", "FAILED"); state != "RUNNING" {
			out, _ := l.run("logs", "jupyter")
			t.Fatalf("the job is %s in spite of %s:\n%s", state, why, out)
		}
	}
	if said := kernelSays(t, base, token, "import time; time.sleep(55); print('awake')"); !strings.Contains(said, "awake") {
		t.Errorf("the cell printed %q", said)
	}
	runs("a cell")
	l.until("the end is announced", func(s api.Session) bool { return !s.IdleEnd.IsZero() })
	l.run("extend", "jupyter", "--idle")
	l.until("the job is used again", func(s api.Session) bool { return s.IdleEnd.IsZero() })
	runs("extend --idle")
	l.run("ssh", "jupyter", "sleep 55")
	runs("a command inside")

	l.run("agent", "stop")
	l.lab.WaitJob(job, "COMPLETED")
	l.run("agent", "start")
	l.until("ended", is("ended"))
	if out, _ := l.run("history"); !strings.Contains(out, "without use") {
		t.Errorf("the history is:\n%s", out)
	}
}
