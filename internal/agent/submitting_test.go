package agent_test

import (
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
)

func TestALinkLostWhileSubmittingMakesOneJob(t *testing.T) {
	w := newWorld(t)
	w.cluster.Slow(50 * time.Millisecond) // so that the answer is still under way
	if _, err := w.client.Up(t.Context(), "jupyter"); err != nil {
		t.Fatal(err)
	}
	w.until("submitting", func(s api.Session) bool {
		return s.State == api.SessionSubmitting && strings.HasPrefix(s.Cause, "submitting ")
	})
	w.cluster.DropAll()
	w.until("ready", ready)
	if n := len(w.cluster.Jobs()); n != 1 {
		t.Errorf("there are %d jobs", n)
	}
}

func TestANewAgentOutlivesASchedulersSilence(t *testing.T) {
	w := newWorld(t)
	before := w.up()
	w.stop()
	w.cluster.Controller(false)
	w.start()
	w.until("waiting for the scheduler", func(s api.Session) bool {
		return s.State == api.SessionSubmitting && strings.Contains(s.Cause, "scheduler does not respond")
	})
	w.cluster.Controller(true)
	if after := w.until("ready", ready); after.Job.ID != before.Job.ID {
		t.Errorf("job %s became job %s", before.Job.ID, after.Job.ID)
	}
}

func TestASubmissionInDoubtIsAPersonsToSettle(t *testing.T) {
	w := newWorld(t)
	w.cluster.FailSubmit("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", 1)
	if _, err := w.client.Up(t.Context(), "jupyter"); err != nil {
		t.Fatal(err)
	}
	s := w.until("in doubt", func(s api.Session) bool { return s.State == api.SessionFailed })
	if s.Code != api.CodeNeedsPerson || !strings.Contains(s.Cause, "cannot tell whether the job was submitted") || s.Hint == "" {
		t.Errorf("the person is told %q (%s, %s)", s.Cause, s.Hint, s.Code)
	}
	w.cluster.FailSubmit("", 0)
	w.up() // they looked: it was not
	if n := len(w.cluster.Jobs()); n != 1 {
		t.Errorf("there are %d jobs", n)
	}
}
