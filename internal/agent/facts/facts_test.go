package facts

import (
	"strings"
	"testing"
	"time"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
)

// saved is the record of a session that is wanted, with its job and why it failed.
func saved(job *api.Job, failure *api.Error) state.Session {
	rec := state.Session{Wanted: true, Failure: failure}
	if job != nil {
		rec.Submissions = state.Submissions{{Role: state.RoleJob, Job: job}}
	}
	return rec
}

var wanted = saved(nil, nil)

func TestAStateFollowsFromTheFacts(t *testing.T) {
	now := time.Date(2026, 3, 2, 13, 0, 0, 0, time.Local)
	up := api.Host{State: api.HostUp}
	stalled := api.Host{State: api.HostUp, Cause: "not responding", NotRespondingSince: now}
	job := func(state api.JobState) *api.Job { return &api.Job{ID: "7", State: state} }
	endpoint := &api.Endpoint{Host: "cn01", Port: 8123}
	cancelled := job(api.JobRunning).Cancelled()
	tests := map[string]struct {
		facts Facts
		state api.SessionState
		cause string
	}{
		"nobody wants it":              {Facts{Host: up}, api.SessionDown, ""},
		"the host is being dialled":    {Facts{Started: true, Host: api.Host{State: api.HostConnecting, Cause: "dialling"}, Saved: wanted}, api.SessionConnecting, "dialling"},
		"the host waits for a network": {Facts{Started: true, Host: api.Host{State: api.HostWaiting, Cause: "no route"}, Saved: wanted}, api.SessionConnecting, "no route"},
		"the host needs a person":      {Facts{Started: true, Host: api.Host{State: api.HostNeedsLogin, Cause: "a code"}, Saved: wanted}, api.SessionNeedsLogin, "a code"},
		"the host may have banned us":  {Facts{Started: true, Host: api.Host{State: api.HostBlocked, Cause: "banned"}, Saved: wanted}, api.SessionFailed, "banned"},
		"its key changed, a job waits": {Facts{Started: true, NeedsJob: true, Host: api.Host{State: api.HostBlocked, Cause: "another key"}, Saved: saved(job(api.JobQueued), nil)}, api.SessionNeedsLogin, "another key"},
		"a person logged out":          {Facts{Started: true, Served: true, Host: api.Host{Alias: "narval", State: api.HostDown}, Saved: wanted}, api.SessionNeedsLogin, "you logged out of narval"},
		"the link is lost":             {Facts{Started: true, Served: true, Host: api.Host{State: api.HostWaiting}, Saved: wanted}, api.SessionReconnecting, ""},
		"the host does not respond":    {Facts{Started: true, Served: true, Answers: true, Host: stalled, Saved: wanted}, api.SessionReconnecting, "not responding"},
		"it does not respond at first": {Facts{Started: true, NeedsJob: true, Host: stalled, Saved: wanted}, api.SessionConnecting, "not responding"},
		"no job yet":                   {Facts{Started: true, Host: up, NeedsJob: true, Doing: Doing{Text: "looking"}, Saved: wanted}, api.SessionSubmitting, "looking"},
		"being submitted":              {Facts{Started: true, Host: up, NeedsJob: true, Submitting: true, Doing: Doing{Text: "submitting"}, Saved: saved(job(api.JobQueued), nil)}, api.SessionSubmitting, "submitting"},
		"held":                         {Facts{Started: true, Host: up, NeedsJob: true, Saved: saved(job(api.JobHeld), nil)}, api.SessionQueued, "waiting in the queue"},
		"queued with a reason": {
			Facts{Started: true, Host: up, NeedsJob: true, Saved: saved(&api.Job{State: api.JobQueued, Reason: "Resources", ExpectedStart: now.Add(65 * time.Minute)}, nil)},
			api.SessionQueued, "Resources, expected start 14:05",
		},
		"queued until tomorrow": {
			Facts{Started: true, Host: up, NeedsJob: true, Saved: saved(&api.Job{State: api.JobQueued, Reason: "Priority", Hint: "other jobs have a higher priority", ExpectedStart: now.Add(24 * time.Hour)}, nil)},
			api.SessionQueued, "other jobs have a higher priority, expected start Tue 13:00",
		},
		"queued for ever, whatever earlier jobs waited": {
			Facts{Started: true, Host: up, NeedsJob: true, Waits: "an earlier job waited 5 min", Saved: saved(&api.Job{State: api.JobQueued, Hint: api.HintNeverStarts + ": too long"}, nil)},
			api.SessionQueued, api.HintNeverStarts + ": too long",
		},
		"runs and says nothing": {Facts{Started: true, Host: up, NeedsJob: true, Doing: Doing{Text: "waiting"}, Saved: saved(job(api.JobRunning), nil)}, api.SessionStarting, "waiting"},
		"its node is prepared": {
			Facts{Started: true, Host: up, NeedsJob: true, Doing: Doing{Text: "waiting"}, Saved: saved(&api.Job{State: api.JobRunning, Reason: "Prolog", Hint: "being prepared"}, nil)},
			api.SessionStarting, "being prepared",
		},
		"answers":           {Facts{Started: true, Host: up, NeedsJob: true, Endpoint: endpoint, Answers: true, Saved: saved(job(api.JobRunning), nil)}, api.SessionReady, ""},
		"ends by itself":    {Facts{Started: true, Host: up, NeedsJob: true, Served: true, Doing: Doing{Text: "stopped"}, Saved: saved(job(api.JobCompleting), nil)}, api.SessionReconnecting, "job 7 is about to end"},
		"was cancelled":     {Facts{Started: true, Host: up, NeedsJob: true, Answers: true, Saved: saved(&cancelled, nil)}, api.SessionReady, "job 7 is about to end"},
		"stopped answering": {Facts{Started: true, Host: up, NeedsJob: true, Served: true, Doing: Doing{Text: "no answer"}, Saved: saved(job(api.JobRunning), nil)}, api.SessionReconnecting, "no answer"},
		"the scheduler is silent": {
			Facts{Started: true, Host: up, NeedsJob: true, Answers: true, Saved: saved(&api.Job{State: api.JobUnknown, Hint: "no answer since 13:00"}, nil)},
			api.SessionReady, "no answer since 13:00",
		},
		"only forwards": {Facts{Started: true, Host: up, Answers: true, Saved: wanted}, api.SessionReady, ""},
		"the host is asked to listen": {
			Facts{Started: true, Host: up, Answers: true, Listeners: Listeners{Pending: "asking", Refused: []string{"no"}}, Saved: wanted}, api.SessionConnecting, "asking",
		},
		"the host refused to listen": {
			Facts{Started: true, Host: up, Answers: true, Listeners: Listeners{Refused: []string{"no", "nor there"}}, Saved: wanted}, api.SessionFailed, "no; nor there",
		},
		"the host refused to listen for one of them": {
			Facts{Started: true, Host: up, Answers: true, Listeners: Listeners{Refused: []string{"no"}, Others: true}, Saved: wanted}, api.SessionReady, "no",
		},
		"the host does not listen again yet": {
			Facts{Started: true, Served: true, Host: up, Answers: true, Listeners: Listeners{Refused: []string{"no"}}, Saved: wanted}, api.SessionReconnecting, "no",
		},
		"suspended": {
			Facts{Started: true, Host: up, NeedsJob: true, Answers: true, Saved: saved(&api.Job{State: api.JobRunning, Reason: api.ReasonSuspended, Hint: "suspended"}, nil)},
			api.SessionReconnecting, "suspended",
		},
		"suspended, and so silent": {
			Facts{Started: true, Host: up, NeedsJob: true, Served: true, Doing: Doing{Text: "no answer"}, Saved: saved(&api.Job{State: api.JobRunning, Reason: api.ReasonSuspended, Hint: "suspended"}, nil)},
			api.SessionReconnecting, "suspended",
		},
		"the job ended":       {Facts{Started: true, Host: up, Saved: saved(nil, &api.Error{Code: api.CodeJobEnded, Message: "over"})}, api.SessionEnded, "over"},
		"it cannot be had":    {Facts{Started: true, Host: up, Saved: saved(nil, &api.Error{Code: api.CodeSubmit, Message: "refused"})}, api.SessionFailed, "refused"},
		"nobody could answer": {Facts{Started: true, Host: up, Saved: saved(nil, &api.Error{Code: api.CodeNeedsPerson, Message: "a code"})}, api.SessionNeedsLogin, "a code"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v := tt.facts.Derive(now)
			if v.State != tt.state || v.Cause != tt.cause {
				t.Errorf("derive = %s %q, want %s %q", v.State, v.Cause, tt.state, tt.cause)
			}
		})
	}
}

func TestAMorningsStatusTellsOfTheNight(t *testing.T) {
	now := time.Date(2026, 3, 3, 9, 0, 0, 0, time.Local)
	f := Facts{Started: true, Served: true, NeedsJob: true, Host: api.Host{State: api.HostNeedsLogin, Cause: "narval needs you"}, Saved: saved(&api.Job{ID: "7", State: api.JobRunning, End: time.Date(2026, 3, 3, 3, 12, 0, 0, time.Local)}, nil)}
	v := f.Derive(now)
	if v.State != api.SessionNeedsLogin || !strings.Contains(v.Cause, "narval needs you; job 7 reached its time limit at 03:12") {
		t.Errorf("%s: %q", v.State, v.Cause)
	}
}

func TestCells(t *testing.T) {
	now := time.Now()
	job := &api.Job{ID: "7", State: api.JobRunning, End: now.Add(time.Hour)}
	f := Facts{Saved: saved(job, nil)}
	f.Saved.Cells = map[string]state.KeptCells{
		"old":   {Cells: api.Cells{Finished: 9}, Job: "5", At: now.Add(-31 * 24 * time.Hour)},
		"user":  {Cells: api.Cells{Finished: 1}, At: now},
		"ended": {Cells: api.Cells{Running: 1, Finished: 2}, Job: "6", At: now},
		"runs":  {Cells: api.Cells{Running: 4}, Job: "7", At: now},
	}
	check := func(told map[string]api.Cells, at time.Time, want api.Cells) {
		t.Helper()
		if got := f.Cells(told, at); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	check(nil, now, api.Cells{Running: 4, Finished: 4})
	check(map[string]api.Cells{"runs": {}}, now, api.Cells{Finished: 4}) // the page has come back
	check(map[string]api.Cells{"new": {Running: 2, Waiting: 1, Trouble: "full"}}, now, api.Cells{Running: 6, Waiting: 1, Finished: 4, Trouble: "full"})
	check(nil, now.Add(2*time.Hour), api.Cells{Finished: 8}) // its time limit
	job.State = api.JobFailed
	check(nil, now, api.Cells{Finished: 8})
}

func TestDeriveOfAJobThatIsNotEntered(t *testing.T) {
	f := Facts{
		Started: true, NeedsJob: true, Host: api.Host{State: api.HostUp}, Doing: Doing{"no way in", "this needs ssh"},
		Saved: saved(&api.Job{ID: "7", State: api.JobRunning, Hint: api.HintSpooled}, nil),
	}
	if v := f.Derive(time.Now()); v.Hint != "this needs ssh" { // its output would not help
		t.Errorf("%+v", v)
	}
	f.Doing.Hint = ""
	if v := f.Derive(time.Now()); v.Hint != api.HintSpooled {
		t.Errorf("%+v", v)
	}
}

func TestReadyNearTheEnd(t *testing.T) {
	now := time.Date(2026, 3, 2, 13, 0, 0, 0, time.Local)
	job := &api.Job{ID: "7", State: api.JobRunning, Start: now.Add(-time.Hour), End: now.Add(5 * time.Minute)}
	alone, kept := saved(job, nil), saved(job, nil)
	kept.Submissions = append(kept.Submissions, state.Submission{Role: state.RoleNext, Job: &api.Job{ID: "8", State: api.JobQueued}})
	for want, f := range map[string]Facts{
		"`tunctl extend nb 1h` asks for more time, if the site allows it": {Saved: alone},
		"job 8 takes over, and the page moves with it":                    {Saved: kept, Endpoint: &api.Endpoint{Host: "cn01", Port: 8123}},
		"job 8 takes over": {Saved: kept},
	} {
		f.Name, f.Started, f.Answers, f.NeedsJob, f.Host = "nb", true, true, true, api.Host{State: api.HostUp}
		f.Remind = []time.Duration{15 * time.Minute}
		if got := f.Derive(now); got.State != api.SessionReady || got.Cause != "job 7 ends at 13:05: save your work" || got.Hint != want {
			t.Errorf("%s: %q, hint %q, want %q", got.State, got.Cause, got.Hint, want)
		}
	}
}
