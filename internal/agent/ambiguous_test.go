package agent_test

import (
	"strings"
	"testing"

	"tunctl/internal/api"
)

func TestBetweenTwoJobsOfANameThatRunAPersonChooses(t *testing.T) {
	w := newWorld(t)
	w.write(w.paths.Config, config+"job = \"twin\"\n")
	w.stop()
	w.start()
	for up := false; !up; { // it answers at once, and connects meanwhile
		host, err := w.client.Login(t.Context(), "practice")
		if err != nil {
			t.Fatal(err)
		}
		up = host.State == api.HostUp
	}
	var ids []string
	for range 2 {
		job, err := w.client.Submit(t.Context(), "practice", api.SubmitRequest{Script: "~/jupyter.sh", Args: []string{"--job-name=twin"}})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, job.ID)
		for job.State != api.JobRunning {
			if job, err = w.client.Job(t.Context(), "practice", job.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := w.client.Up(t.Context(), "jupyter"); err != nil {
		t.Fatal(err)
	}
	s := w.until("failed", func(s api.Session) bool { return s.State == api.SessionFailed })
	for _, id := range ids {
		if !strings.Contains(s.Cause, id) {
			t.Errorf("the cause lacks job %s: %q", id, s.Cause)
		}
	}
	if !strings.Contains(s.Hint, "tunctl attach practice "+ids[1]) {
		t.Errorf("hint %q", s.Hint)
	}
	if jobs, err := w.client.Jobs(t.Context(), "practice", false); err != nil || len(jobs) != 2 {
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
	if _, err := w.client.Cancel(t.Context(), "practice", ids[0]); err != nil {
		t.Fatal(err)
	}
	if s := w.up(); s.Job.ID != ids[1] {
		t.Errorf("adopted %+v", s.Job)
	}
}
