package pbs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/internal/lists"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// captureStates are what the captures' names say.
var captureStates = []struct {
	part  string
	state api.JobState
}{
	{"after_qhold_running", api.JobRunning},
	{"array", ""},
	{"two_ids", ""},
	{"three_ids", ""},
	{"_all", ""},
	{"json_u", ""},
	{"known_unknown", ""},
	{"subjob", api.JobRunning},
	{"in_epilogue_still_R", api.JobRunning},
	{"after_qdel_still_R", api.JobCompleting},
	{"right_after_qdel", api.JobCompleting},
	{"running_plus_finished", api.JobRunning},
	{"running_finished", ""},
	{"exiting", api.JobCompleting},
	{"held", api.JobHeld},
	{"queued_comment", api.JobQueued},
	{"estimated", api.JobQueued},
	{"waiting", api.JobQueued},
	{"exit0", api.JobFinished},
	{"exit3", api.JobFailed},
	{"exit255", api.JobFailed},
	{"undelivered", api.JobFailed},
	{"qdel_queued", api.JobCancelled},
	{"qdel_running", api.JobCancelled},
	{"qdel_force", api.JobCancelled},
	{"walltime_exceeded", api.JobTimeout},
	{"mem_exceeded", api.JobOOM},
	{"depend_failed", api.JobNeverRan},
	{"sigkill", api.JobFailed},
	{"node_down_queued", api.JobQueued},
	{"node_down", ""},
	{"routed_jupyter", api.JobRunning},
	{"routed", api.JobFinished},
	{"running", api.JobRunning},
	{"after_rerun", api.JobRunning},
	{"weird_env", api.JobRunning},
	{"finished", ""},
}

func TestEveryPBSCaptureIsReadAsItsNameSays(t *testing.T) {
	read := 0
	for _, c := range jobtest.Captures(t, "pbs") {
		for _, job := range captured(c) {
			read++
			if job.ID == "" || job.State == "" || job.State == api.JobUnknown || job.Name == "" || job.Submitted.IsZero() {
				t.Errorf("%s: %+v", c.Name, job)
			}
			for _, s := range captureStates {
				if strings.Contains(c.Name, s.part) {
					if s.state != "" && job.State != s.state {
						t.Errorf("%s: job %s is %q, want %q", c.Name, job.ID, job.State, s.state)
					}
					break
				}
			}
		}
		checkErrors(t, c)
	}
	jobtest.EnoughRead(t, "pbs", read)
}

// captured reads the jobs of a capture. Valid JSON answers are converted to the text that
// our query gets.
func captured(c jobtest.Capture) []api.Job { return lists.Map(capturedRecords(c), record.job) }

func capturedRecords(c jobtest.Capture) []record {
	out := string(c.Result.Stdout)
	if strings.Contains(c.Command, "-F dsv") {
		return nil
	}
	if !strings.Contains(c.Command, "json") {
		return splitQstat(out)
	}
	var doc struct{ Jobs map[string]map[string]any }
	decoder := json.NewDecoder(bytes.NewReader(c.Result.Stdout))
	decoder.UseNumber()
	if decoder.Decode(&doc) != nil {
		return nil
	}
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(doc.Jobs)) {
		fmt.Fprintf(&b, "Job Id: %s\n", id)
		for key, value := range doc.Jobs[id] {
			group, ok := value.(map[string]any)
			if !ok {
				fmt.Fprintf(&b, "    %s = %v\n", key, value)
				continue
			}
			for name, v := range group {
				fmt.Fprintf(&b, "    %s.%s = %v\n", key, name, v)
			}
		}
	}
	return splitQstat(b.String())
}

var serverGone = regexp.MustCompile(`_server_(?:down|hung|unresolvable)`)

func checkErrors(t *testing.T, c jobtest.Capture) {
	program, _, _ := strings.Cut(c.Command, " ")
	switch {
	case program == "qsub" && !strings.ContainsAny(c.Command, ";|"):
		id, err := scheduler{}.ParseSubmit(c.Result)
		refused, _ := errors.AsType[*api.Error](err)
		switch {
		case strings.Contains(c.Name, "hung"):
			if !errors.Is(err, sched.ErrDoubt) {
				t.Errorf("%s: %q, %v, want doubt", c.Name, id, err)
			}
		case c.Result.Exit == 0:
			if id != strings.TrimSpace(string(c.Result.Stdout)) {
				t.Errorf("%s: %q, %v", c.Name, id, err)
			}
		case refused == nil || refused.Code != api.CodeSubmit || refused.Hint == "" && !strings.Contains(c.Name, "no_tty"):
			t.Errorf("%s: %#v", c.Name, err)
		}
	case program == "qstat" && serverGone.MatchString(c.Name):
		if err := problem(program, c.Result); !errors.Is(err, remote.ErrNoAnswer) {
			t.Errorf("%s: %v, want no answer", c.Name, err)
		}
	case program == "qstat" && (c.Result.Exit == 153 || c.Result.Exit == 35) && len(c.Result.Stdout) == 0:
		if err := problem(program, c.Result); !errors.Is(err, sched.ErrNoJob) {
			t.Errorf("%s: %v, want no such job", c.Name, err)
		}
	}
}
