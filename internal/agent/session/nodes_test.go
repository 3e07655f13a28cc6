package session

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/jobnode"
	"tunctl/internal/api"
)

func TestASessionWithoutARunningJobSaysWhyAndWhatToRun(t *testing.T) {
	up := api.Host{Alias: "narval", State: api.HostUp}
	job := func(state api.JobState, node string) *api.Job {
		j := &api.Job{ID: "48213", State: state, Node: node}
		if state.Ended() {
			j.End = time.Now().Add(-time.Hour)
		}
		return j
	}
	runs := job(api.JobRunning, "cn01")
	runs.End = time.Now().Add(time.Hour)
	queued := job(api.JobQueued, "")
	queued.Reason = "Priority"
	cancelled := saved(runs, nil)
	cancelled.Submissions[0].Cancel = true
	for name, tt := range map[string]struct {
		facts   facts.Facts
		code    api.Code
		message string
		hint    string
	}{
		"down": {
			facts.Facts{}, api.CodeNotReady, "session jupyter is down: it has no job", "`tunctl up jupyter` starts it",
		},
		"down, and its job runs": {
			facts.Facts{Saved: saved(runs, nil)}, api.CodeNotReady, "session jupyter is disconnected: job 48213 was last seen running; it is charged until ", "`tunctl up jupyter` reconnects",
		},
		"down, and its job is to end": {
			facts.Facts{Saved: cancelled}, api.CodeJobEnded, "job 48213 of session jupyter is ending", "`tunctl up jupyter` starts a new one",
		},
		"down, and its job is queued": {
			facts.Facts{Saved: saved(queued, nil)}, api.CodeNotReady, "session jupyter is disconnected: job 48213 was last seen queued, and will run", "`tunctl up jupyter` reconnects",
		},
		"connecting": {
			facts.Facts{Started: true, NeedsJob: true, Host: api.Host{State: api.HostConnecting}, Saved: wanted},
			api.CodeNotReady, "session jupyter is connecting to narval", "`tunctl up jupyter` waits for it",
		},
		"needs a login": {
			facts.Facts{Started: true, NeedsJob: true, Host: api.Host{State: api.HostNeedsLogin}, Saved: wanted},
			api.CodeNotReady, "session jupyter waits for you to log in to narval", "`tunctl up jupyter` logs in",
		},
		"submitting": {
			facts.Facts{Started: true, NeedsJob: true, Host: up, Saved: wanted}, api.CodeNotReady, "session jupyter has no job yet", "`tunctl up jupyter` waits for it",
		},
		"queued": {
			facts.Facts{Started: true, NeedsJob: true, Host: up, Saved: saved(queued, nil)},
			api.CodeNotReady, "job 48213 of session jupyter is still queued: Priority", "`tunctl up jupyter` waits for it",
		},
		"its node is being prepared": {
			facts.Facts{Started: true, NeedsJob: true, Host: up, Saved: saved(job(api.JobConfiguring, "cn01"), nil)},
			api.CodeNotReady, "still queued: the node is being prepared", "`tunctl up jupyter` waits for it",
		},
		"started, nobody knows where": {
			facts.Facts{Started: true, NeedsJob: true, Host: up, Saved: saved(job(api.JobRunning, ""), nil)},
			api.CodeNotReady, "on which node job 48213", "`tunctl up jupyter` waits for it",
		},
		"ending": {
			facts.Facts{Started: true, NeedsJob: true, Host: up, Saved: saved(job(api.JobCompleting, "cn01"), nil)},
			api.CodeJobEnded, "job 48213 of session jupyter is ending", "`tunctl up jupyter` starts a new one",
		},
		"ended": {
			facts.Facts{Started: true, NeedsJob: true, Host: up, Saved: saved(job(api.JobTimeout, "cn01"), &api.Error{Code: api.CodeJobEnded, Message: "x"})},
			api.CodeJobEnded, "job 48213 reached its time limit at ", "`tunctl up jupyter` starts a new one",
		},
		"failed": {
			facts.Facts{Started: true, NeedsJob: true, Host: up, Saved: saved(nil, &api.Error{Code: api.CodeSubmit, Message: "sbatch: error: no\nmore", Hint: "fix the script"})},
			api.CodeNotReady, "session jupyter has no running job: sbatch: error: no", "fix the script",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := quietSession(t)
			s.Change(func(f *facts.Facts) {
				*f = tt.facts
			})
			s.save(t, tt.facts.Saved)
			_, err := s.Machine(t.Context(), "")
			e, ok := errors.AsType[*api.Error](err)
			if !ok {
				t.Fatalf("err = %v", err)
			}
			if e.Code != tt.code || !strings.Contains(e.Message, tt.message) || !strings.Contains(e.Hint, tt.hint) {
				t.Errorf("%s: %s; hint: %s", e.Code, e.Message, e.Hint)
			}
			if strings.Contains(e.Message, "\n") {
				t.Errorf("more than a line: %q", e.Message)
			}
			for _, h := range s.parts.Hosts.Pool.Hosts() {
				if s.InProgress() || h.State != api.HostDown {
					t.Errorf("something was started for it: %s is %s", h.Alias, h.State)
				}
			}
		})
	}
}

func TestASchedulerThatDoesNotRespondEndsNoJob(t *testing.T) {
	s := quietSession(t)
	nodes := jobnode.New(jobnode.Options{Log: s.parts.Log})
	followed{s}.SetNodes(nodes)
	nodes.SetJob(api.Job{ID: "7", State: api.JobRunning, Node: "cn01"})
	nodes.SetJob(api.Job{ID: "7", State: api.JobUnknown})
	if _, err := s.RunningNodes(); err != nil {
		t.Error(err)
	}
	nodes.SetJob(api.Job{ID: "7", State: api.JobCompleting, Node: "cn01"})
	if _, err := s.RunningNodes(); err == nil {
		t.Error("a job that ends counts as running")
	}
}
