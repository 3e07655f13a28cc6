package ledger

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/jobwatch"
)

func TestNextTag(t *testing.T) {
	at := time.Unix(1794837600, 0)
	for _, tt := range []struct {
		job  api.Job
		want string
	}{
		{api.Job{ID: "48213", Submitted: at}, "after-48213-1794837600-0"},
		{api.Job{ID: "48213", Submitted: at.In(time.FixedZone("", 3600)), Name: "other", Node: "cn02"}, "after-48213-1794837600-0"},
		{api.Job{ID: "48213.pbs01", Submitted: at}, "after-48213-1794837600-0"},
		{api.Job{ID: "48213_7", Submitted: at}, "after-48213_7-1794837600-0"},
		{api.Job{ID: "48213[7].pbs01", Submitted: at}, "after-48213-7--1794837600-0"},
		{api.Job{ID: "../../x", Submitted: at}, "after--1794837600-0"},
		{api.Job{ID: "48213", Submitted: at.Add(time.Hour)}, "after-48213-1794841200-0"},
		{api.Job{ID: "48213", Submitted: at, Restarts: 2}, "after-48213-1794837600-0-2"},
	} {
		if got := nextTag(tt.job, 0); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.job, got, tt.want)
		}
	}
}

func TestKeeperExtension(t *testing.T) {
	l, owner := newLedger(t)
	owner.Session.Keep = true
	start := time.Now()
	job := api.Job{ID: "7", State: api.JobRunning, Submitted: start, Start: start, End: start.Add(time.Hour)}
	next := state.Submission{Tag: nextTag(job, 0), Role: state.RoleNext, Job: &api.Job{ID: "8", State: api.JobQueued}}
	owner.Save(t, state.Session{Submissions: state.Submissions{{Role: state.RoleJob, Job: &job}, next}})
	k := l.NewKeeper(jobwatch.NewWatcher(nil, jobwatch.Options{}))
	if k.isExtended(job) {
		t.Error("a job with the time limit that its next one was submitted for is extended")
	}
	job.End = start.Add(3 * time.Hour)
	if !k.isExtended(job) {
		t.Error("a job with a longer time limit is not extended")
	}
}

// TestKeeperPermit: a submission that is continued stays one whose job may still appear.
func TestKeeperPermit(t *testing.T) {
	l, owner := newLedger(t)
	start := time.Now()
	job := api.Job{ID: "7", State: api.JobRunning, Submitted: start, Start: start, End: start.Add(time.Hour)}
	interrupted := state.Submission{Tag: nextTag(job, 0), Role: state.RoleNext, When: start.Add(-time.Minute)}
	owner.Save(t, state.Session{Submissions: state.Submissions{{Role: state.RoleJob, Job: &job}, interrupted}})
	sub, err := l.NewKeeper(nil).permit(job, l.saved())
	if err != nil || sub.Tag != interrupted.Tag || !l.saved().Submissions.Pending() || sub.When.Before(start) {
		t.Errorf("%+v, %v; pending %v", sub, err, l.saved().Submissions.Pending())
	}
}

func TestKeeperNotices(t *testing.T) {
	l, owner := newLedger(t)
	end := time.Now().Add(time.Hour)
	ending := api.Job{ID: "48213345", State: api.JobRunning, Start: end.Add(-2 * time.Hour), End: end}
	next := api.Job{ID: "48300012", State: api.JobQueued}
	if err := l.record(func(r *state.Session) { r.Submissions = state.Submissions{{Role: state.RoleNext, Job: &next}} }); err != nil {
		t.Fatal(err)
	}
	k := l.NewKeeper(nil)
	k.handleNext(api.Job{ID: next.ID, State: api.JobCancelled})
	_ = k.skip(ending, errors.New("keep = true has reached its limit of jobs per day"))
	if len(owner.Notices) != 2 {
		t.Fatalf("told %q", owner.Notices)
	}
	for _, text := range owner.Notices {
		title, body, ok := strings.Cut(text, ": ")
		if !ok || len([]rune(title)) > 40 || body == "" || strings.Contains(text, "`") || strings.Contains(text, "tunctl ") {
			t.Errorf("%q does not fit into a notification", text)
		}
	}
}
