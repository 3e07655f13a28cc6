package ledger

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
)

func TestAJobsEndIsWrittenDownWithoutItsLimit(t *testing.T) {
	l, _ := newLedger(t)
	start := time.Now().Add(-time.Hour)
	l.RecordRun(api.Job{ID: "7", State: api.JobCancelled, Submitted: start.Add(-time.Minute), Start: start, End: time.Now().Add(time.Hour), Script: "~/.tunctl/x/y.sh"})
	runs, err := l.History.Runs()
	if err != nil || len(runs) != 1 {
		t.Fatalf("runs %+v, err %v", runs, err)
	}
	if ran, ok := runs[0].Ran(); !ok || ran > 61*time.Minute {
		t.Errorf("it ran for %v", ran)
	}
	if waited, ok := runs[0].Waited(); !ok || waited != time.Minute {
		t.Errorf("it waited for %v", waited)
	}
	requeued := runs[0]
	requeued.Job.Restarts = 1
	if waited, ok := requeued.Waited(); ok {
		t.Errorf("requeued, it waited for %v", waited)
	}
	if runs[0].Job.Script != "" || !strings.Contains(runs[0].Why, "cancelled") {
		t.Errorf("written down: %+v", runs[0])
	}
}

func TestTheHistoryKnowsTheGPUsOfARun(t *testing.T) {
	l, owner := newLedger(t)
	for i, tt := range []struct {
		config map[string]string
		chosen api.Choices
		want   int
	}{
		{nil, nil, 0},
		{map[string]string{"gpus": "2"}, nil, 2},
		{map[string]string{"gpus": "2"}, api.Choices{"gpus": "4"}, 4},
		{map[string]string{"gpus": "2"}, api.Choices{"gpus": "0"}, 0},
		{map[string]string{"gpus": "2"}, api.Choices{"hours": "8"}, 2},
	} {
		owner.Session.With = tt.config
		id := strconv.Itoa(i)
		if err := l.record(func(r *state.Session) {
			r.Submissions = state.Submissions{{Role: state.RoleJob, Job: &api.Job{ID: id}, With: tt.chosen}}
		}); err != nil {
			t.Fatal(err)
		}
		l.RecordRun(api.Job{ID: id, State: api.JobFinished})
		runs, err := l.History.Runs()
		if err != nil || len(runs) == 0 || runs[len(runs)-1].GPUs != tt.want {
			t.Errorf("%v, chosen %v: %+v, %v; want %d GPUs", tt.config, tt.chosen, runs, err, tt.want)
		}
	}
}

func TestTheHistoryKnowsTheNodesOfARun(t *testing.T) {
	l, _ := newLedger(t)
	path := l.Settings.Config().Path
	if err := os.WriteFile(path, []byte("[host.narval]\nsite = \"archer2\"\n[session.jupyter]\nhost = \"narval\"\nsubmit = \"~/jupyter.sh\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Settings.Reload(); err != nil {
		t.Fatal(err)
	}
	for i, tt := range []struct {
		job  api.Job
		want int
	}{
		{api.Job{Queue: "standard", Node: "nid001", Nodes: "nid[001-003]"}, 3},
		{api.Job{Queue: "standard"}, 1}, // it is not known where it ran
		{api.Job{Queue: "serial", Node: "dvn01"}, 0},
	} {
		tt.job.ID, tt.job.State = strconv.Itoa(i), api.JobFinished
		l.RecordRun(tt.job)
		runs, err := l.History.Runs()
		if err != nil || len(runs) == 0 || runs[len(runs)-1].Nodes != tt.want {
			t.Errorf("%+v: %+v, %v; want %d nodes", tt.job, runs, err, tt.want)
		}
	}
}

func TestTheHistoryKnowsTheTimeLimitOfAJobThatEndedEarlier(t *testing.T) {
	l, _ := newLedger(t)
	start := time.Now().Add(-time.Hour)
	run := func(end func(job api.Job)) api.Run {
		t.Helper()
		job := api.Job{ID: "7", State: api.JobRunning, Start: start, End: start.Add(4 * time.Hour)}
		if err := l.adopt(api.Job{ID: "7", State: api.JobQueued}, state.Submission{}, "", time.Time{}); err != nil {
			t.Fatal(err)
		}
		l.SetJob(job)
		job.End = start.Add(8 * time.Hour) // extended
		l.SetJob(job)
		end(job)
		runs, err := l.History.Runs()
		if err != nil || len(runs) == 0 {
			t.Fatalf("runs %+v, err %v", runs, err)
		}
		return runs[len(runs)-1]
	}
	const want = 8 * 3600
	finished := run(func(job api.Job) {
		job.State, job.End = api.JobFinished, start.Add(time.Minute)
		l.SetJob(job)
		l.RecordRun(job)
	})
	if finished.Asked != want {
		t.Errorf("finished: asked for %d s, want %d", finished.Asked, want)
	}
	cancelled := run(func(job api.Job) {
		job.State = api.JobCancelled
		l.RecordRun(job)
	})
	if ran, _ := cancelled.Ran(); cancelled.Asked != want || ran > 2*time.Hour {
		t.Errorf("cancelled: asked for %d s, want %d; it ran for %v", cancelled.Asked, want, ran)
	}
	if err := l.adopt(api.Job{ID: "8", State: api.JobQueued}, state.Submission{}, "", time.Time{}); err != nil {
		t.Fatal(err)
	}
	l.RecordRun(api.Job{ID: "8", State: api.JobNeverRan})
	if runs, _ := l.History.Runs(); runs[len(runs)-1].Asked != 0 {
		t.Errorf("a job that never ran has the limit of the one before: %+v", runs[len(runs)-1])
	}
}

func TestAQueuedJobSaysHowLongEarlierOnesWaited(t *testing.T) {
	l, owner := newLedger(t)
	submitted := time.Now().Add(-time.Hour)
	l.RecordRun(api.Job{ID: "6", State: api.JobFinished, Submitted: submitted, Start: submitted.Add(5 * time.Minute), End: submitted.Add(time.Hour)})

	if err := l.adopt(api.Job{ID: "7", State: api.JobQueued, Reason: "Resources"}, state.Submission{}, "", time.Time{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(owner.Known.Waits, "an earlier job like this waited 5 min") {
		t.Errorf("%q", owner.Known.Waits)
	}
}

func TestTheChoicesOfAJobThatIsFoundAfterItsAnswerWasLostAreRemembered(t *testing.T) {
	l, _ := newLedger(t)
	with := api.Choices{"hours": "3"}
	if err := l.adopt(api.Job{ID: "7", State: api.JobQueued}, state.Submission{Tag: "tag", With: with}, "", time.Time{}); err != nil {
		t.Fatal(err)
	}
	if recent := l.saved().Recent; len(recent) != 1 || recent[0].String() != with.String() {
		t.Errorf("recent choices %v", recent)
	}
	if err := l.adopt(api.Job{ID: "8", State: api.JobQueued}, state.Submission{}, "", time.Time{}); err != nil { // started by hand
		t.Fatal(err)
	}
	if rec := l.saved(); len(rec.Recent) != 1 || rec.Current().With != nil {
		t.Errorf("after another job: %+v", rec)
	}
}

func TestAnAnswerThatIsNoneForgetsNothingByWhichAJobIsRecognised(t *testing.T) {
	l, _ := newLedger(t)
	submitted := time.Now().Add(-time.Hour).UTC()
	if err := l.adopt(api.Job{ID: "7", Name: "nb", State: api.JobRunning, Submitted: submitted}, state.Submission{}, "", time.Time{}); err != nil {
		t.Fatal(err)
	}
	l.SetJob(l.AsRecorded(api.Job{ID: "7", State: api.JobUnknown}))
	if job := l.AsRecorded(api.Job{ID: "7", Name: "production", State: api.JobRunning}); !job.State.Ended() || job.Name != "nb" {
		t.Errorf("another job with its number is taken for it: %+v", job)
	}
}

// TestUnreadEnd: what was to follow a job that may have ended itself is not used if no log can tell. A log that
// could not be read just now decides nothing.
func TestUnreadEnd(t *testing.T) {
	for _, tt := range []struct {
		endIdle time.Duration
		log     string
		cancels bool
	}{{0, "", false}, {2 * time.Hour, "", true}, {2 * time.Hour, "~/.tunctl/logs/7", false}} {
		l, owner := newLedger(t)
		owner.Session.EndIdle = tt.endIdle
		ended := state.Submission{Tag: "a", Role: state.RoleJob, Host: "narval", Job: &api.Job{ID: "7", State: api.JobRunning, Log: tt.log}}
		next := state.Submission{Tag: "b", Role: state.RoleNext, Host: "narval", Job: &api.Job{ID: "8", State: api.JobQueued}}
		owner.Save(t, state.Session{Wanted: true, Submissions: state.Submissions{ended, next}})
		job := l.readEnd(t.Context(), ended, api.Job{ID: "7", State: api.JobFinished})
		if cancelled := l.List().Of(*next.Job).Cancel; job.Log != tt.log || cancelled != tt.cancels || job.Unused() != cancelled {
			t.Errorf("%+v: cancelled %v, %+v", tt, cancelled, job)
		}
	}
}
