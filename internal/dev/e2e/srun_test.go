package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
	"tunctl/internal/dev/wait"
)

// typedServer is a server started by hand in an allocation: no file has its output.
const typedServer = `setsid salloc --quiet --job-name=typed --time=10 srun python3 -u -m http.server 0 </dev/null >/dev/null 2>&1 &`

func TestAServerThatPrintsToATerminalOnlyIsAttachedToOnRealSlurm(t *testing.T) {
	real.Need(t, "ssh", "slurm")
	t.Parallel()
	l := newQuietLaptop(t, "")
	if out, err := l.lab.As("hpcuser", "sh", "-c", typedServer); err != nil {
		t.Fatal(err, out)
	}
	defer func() { _, _ = l.lab.As("hpcuser", "scancel", "--name=typed") }()
	id := l.typedJob()
	out, talk := l.run("attach", "lab-login", id, "--no-open")
	t.Logf("what a person sees:\n%s", talk)
	res, err := http.Get(strings.TrimSpace(out))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("the page answers %s", res.Status)
	}
}

// typedJob waits until the job called typed runs.
func (l *laptop) typedJob() (id string) {
	l.t.Helper()
	wait.Until(l.t, "the job runs", func() bool {
		out, _ := l.run("jobs", "lab-login", "--json")
		var jobs []api.Job
		if err := json.Unmarshal([]byte(out), &jobs); err != nil {
			l.t.Fatalf("%v\n%s", err, out)
		}
		for _, j := range jobs {
			if j.Name == "typed" && j.State == api.JobRunning {
				id = j.ID
			}
		}
		return id != ""
	})
	return id
}
