package gridengine

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/remote"
)

func TestEveryGridEngineCaptureIsReadAsItsNameSays(t *testing.T) {
	type named struct {
		name  string
		state api.JobState
	}
	states := []named{
		{"running-held", api.JobRunning},
		{"array-held", ""},
		{"array", ""},
		{"held", api.JobHeld},
		{"dependent", ""},
		{"eqw", api.JobHeld},
		{"impossible", api.JobQueued},
		{"suspended", api.JobRunning},
		{"deleting", api.JobCompleting},
		{"node-down-qdel.", api.JobCompleting},
		{"requeued", api.JobQueued},
		{"transfer", api.JobConfiguring},
		{"rich", api.JobRunning},
		{"two-hosts", api.JobRunning},
		{"running", api.JobRunning},
		{"longer", api.JobRunning},
	}
	ends := map[string]api.JobState{
		"done": api.JobFinished, "failed-3": api.JobFailed, "failed-command": api.JobFailed, "failed-h_rt": api.JobTimeout, "failed-s_rt": api.JobTimeout,
		"failed-h_vmem": api.JobFailed, "failed-signal": api.JobCancelled, "deleted": api.JobCancelled, "eqw-cwd": api.JobNeverRan, "eqw-output": api.JobNeverRan,
		"node-back": api.JobNodeFail, "longer": api.JobTimeout,
	}
	read := 0
	for _, c := range jobtest.Captures(t, "gridengine-live") {
		base, command, _ := strings.Cut(c.Name, ".")
		out := string(c.Result.Stdout)
		switch {
		case command == "qacct" && c.Result.Exit == 0:
			for _, a := range parseQacct(out) {
				read++
				if want := ends[base]; want != "" && a.job().State != want {
					t.Errorf("%s: %+v; want %s", c.Name, a.job(), want)
				}
			}
		case strings.HasPrefix(command, "qstat") && strings.Contains(out, "<job_info"):
			rows, err := parseList(out)
			if err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
			i := slices.IndexFunc(states, func(s named) bool { return strings.HasPrefix(c.Name, s.name) })
			for _, r := range rows {
				read++
				if job := r.job(); job.ID == "" || job.State == api.JobUnknown || job.State == api.JobRunning && job.Node == "" {
					t.Errorf("%s: %+v", c.Name, job)
				} else if i >= 0 && states[i].state != "" && len(rows) == 1 && job.State != states[i].state {
					t.Errorf("%s: %+v; want %s", c.Name, job, states[i].state)
				}
			}
		case strings.Contains(out, "<detailed_job_info"):
			for _, r := range parseRecords(out) {
				read++
				if r.number == "" || r.name == "" || r.submitted.IsZero() || r.home == "" {
					t.Errorf("%s: %+v", c.Name, r)
				}
			}
		case strings.HasPrefix(c.Name, "qsub-refused."):
			_, err := newScheduler().ParseSubmit(c.Result)
			if said, ok := errors.AsType[*api.Error](err); !ok || said.Hint == "" || strings.Contains(said.Message, "Exiting") {
				t.Errorf("%s: %+v", c.Name, err)
			}
		case strings.HasPrefix(c.Name, "qsub."):
			if id, err := newScheduler().ParseSubmit(c.Result); c.Result.Exit == 0 && (err != nil || strings.Trim(id, "0123456789") != "") {
				t.Errorf("%s: %q, %v", c.Name, id, err)
			}
		case strings.HasPrefix(c.Name, "master-down.qstat"), strings.HasPrefix(c.Name, "master-down.qdel"):
			if err := problem("qstat", c.Result); !errors.Is(err, remote.ErrNoAnswer) {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
	}
	jobtest.EnoughRead(t, "gridengine-live", read)
}
