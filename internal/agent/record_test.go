package agent

import (
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
)

func TestAJobsEndIsWrittenDownWithoutItsLimit(t *testing.T) {
	s := quietSession(t)
	start := time.Now().Add(-time.Hour)
	s.recordRun(api.Job{ID: "7", State: api.JobCancelled, Submitted: start.Add(-time.Minute), Start: start, End: time.Now().Add(time.Hour), Script: "~/.tunctl/x/y.sh"})
	runs, err := s.agent.history.Runs()
	if err != nil || len(runs) != 1 {
		t.Fatalf("runs %+v, err %v", runs, err)
	}
	if ran, ok := runs[0].Ran(); !ok || ran > 61*time.Minute {
		t.Errorf("it ran for %v", ran)
	}
	if waited, ok := runs[0].Waited(); !ok || waited != time.Minute {
		t.Errorf("it waited for %v", waited)
	}
	if runs[0].Job.Script != "" || !strings.Contains(runs[0].Why, "cancelled") {
		t.Errorf("written down: %+v", runs[0])
	}
}

func TestAQueuedJobSaysHowLongEarlierOnesWaited(t *testing.T) {
	s := quietSession(t)
	submitted := time.Now().Add(-time.Hour)
	s.recordRun(api.Job{ID: "6", State: api.JobFinished, Submitted: submitted, Start: submitted.Add(5 * time.Minute), End: submitted.Add(time.Hour)})
	s.change(func(f *facts) { f.wanted, f.needsJob, f.host = true, true, api.Host{State: api.HostUp} })
	if err := s.adopt(api.Job{ID: "7", State: api.JobQueued, Reason: "Resources"}, "", ""); err != nil {
		t.Fatal(err)
	}
	if now := s.status(); now.State != api.SessionQueued || !strings.Contains(now.Cause, "Resources; an earlier job like this waited 5 min") {
		t.Errorf("%s: %q", now.State, now.Cause)
	}
}
