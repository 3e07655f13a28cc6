package facts

import (
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
)

func TestAStateFollowsFromTheFacts(t *testing.T) {
	now := time.Date(2026, 3, 2, 13, 0, 0, 0, time.Local)
	up := api.Host{State: api.HostUp}
	stalled := api.Host{State: api.HostUp, Cause: "not responding", NotRespondingSince: now}
	job := func(state api.JobState) *api.Job { return &api.Job{ID: "7", State: state} }
	endpoint := &api.Endpoint{Host: "cn01", Port: 8123}
	tests := map[string]struct {
		facts Facts
		state api.SessionState
		cause string
	}{
		"nobody wants it":              {Facts{Host: up}, api.SessionDown, ""},
		"the host is being dialled":    {Facts{Wanted: true, Host: api.Host{State: api.HostConnecting, Cause: "dialling"}}, api.SessionConnecting, "dialling"},
		"the host waits for a network": {Facts{Wanted: true, Host: api.Host{State: api.HostWaiting, Cause: "no route"}}, api.SessionConnecting, "no route"},
		"the host needs a person":      {Facts{Wanted: true, Host: api.Host{State: api.HostNeedsLogin, Cause: "a code"}}, api.SessionNeedsLogin, "a code"},
		"the host may have banned us":  {Facts{Wanted: true, Host: api.Host{State: api.HostBlocked, Cause: "banned"}}, api.SessionFailed, "banned"},
		"a person logged out":          {Facts{Wanted: true, Served: true, Host: api.Host{Alias: "narval", State: api.HostDown}}, api.SessionNeedsLogin, "you logged out of narval"},
		"the link is lost":             {Facts{Wanted: true, Served: true, Host: api.Host{State: api.HostWaiting}}, api.SessionReconnecting, ""},
		"the host does not respond":    {Facts{Wanted: true, Served: true, Answers: true, Host: stalled}, api.SessionReconnecting, "not responding"},
		"it does not respond at first": {Facts{Wanted: true, NeedsJob: true, Host: stalled}, api.SessionConnecting, "not responding"},
		"no job yet":                   {Facts{Wanted: true, Host: up, NeedsJob: true, Doing: "looking"}, api.SessionSubmitting, "looking"},
		"being submitted":              {Facts{Wanted: true, Host: up, NeedsJob: true, Submitting: true, Job: job(api.JobQueued), Doing: "submitting"}, api.SessionSubmitting, "submitting"},
		"held":                         {Facts{Wanted: true, Host: up, NeedsJob: true, Job: job(api.JobHeld)}, api.SessionQueued, "waiting in the queue"},
		"queued with a reason": {
			Facts{Wanted: true, Host: up, NeedsJob: true, Job: &api.Job{State: api.JobQueued, Reason: "Resources", ExpectedStart: now.Add(65 * time.Minute)}},
			api.SessionQueued, "Resources, expected start 14:05",
		},
		"queued until tomorrow": {
			Facts{Wanted: true, Host: up, NeedsJob: true, Job: &api.Job{State: api.JobQueued, Reason: "Priority", Hint: "other jobs have a higher priority", ExpectedStart: now.Add(24 * time.Hour)}},
			api.SessionQueued, "other jobs have a higher priority, expected start Tue 3 Mar 13:00",
		},
		"queued for ever, whatever earlier jobs waited": {
			Facts{Wanted: true, Host: up, NeedsJob: true, Waits: "an earlier job waited 5 min", Job: &api.Job{State: api.JobQueued, Hint: api.HintNeverStarts + ": too long"}},
			api.SessionQueued, api.HintNeverStarts + ": too long",
		},
		"runs and says nothing": {Facts{Wanted: true, Host: up, NeedsJob: true, Job: job(api.JobRunning), Doing: "waiting"}, api.SessionStarting, "waiting"},
		"its node is prepared": {
			Facts{Wanted: true, Host: up, NeedsJob: true, Doing: "waiting", Job: &api.Job{State: api.JobRunning, Reason: "Prolog", Hint: "being prepared"}},
			api.SessionStarting, "being prepared",
		},
		"answers":           {Facts{Wanted: true, Host: up, NeedsJob: true, Job: job(api.JobRunning), Endpoint: endpoint, Answers: true}, api.SessionReady, ""},
		"stopped answering": {Facts{Wanted: true, Host: up, NeedsJob: true, Served: true, Job: job(api.JobRunning), Doing: "no answer"}, api.SessionReconnecting, "no answer"},
		"the scheduler is silent": {
			Facts{Wanted: true, Host: up, NeedsJob: true, Answers: true, Job: &api.Job{State: api.JobUnknown, Hint: "no answer since 13:00"}},
			api.SessionReady, "no answer since 13:00",
		},
		"only forwards": {Facts{Wanted: true, Host: up, Answers: true}, api.SessionReady, ""},
		"the host is asked to listen": {
			Facts{Wanted: true, Host: up, Answers: true, Listeners: Listeners{Pending: "asking", Refused: []string{"no"}}}, api.SessionConnecting, "asking",
		},
		"the host refused to listen": {
			Facts{Wanted: true, Host: up, Answers: true, Listeners: Listeners{Refused: []string{"no", "nor there"}}}, api.SessionFailed, "no; nor there",
		},
		"the host refused to listen for one of them": {
			Facts{Wanted: true, Host: up, Answers: true, Listeners: Listeners{Refused: []string{"no"}, Others: true}}, api.SessionReady, "no",
		},
		"the host does not listen again yet": {
			Facts{Wanted: true, Served: true, Host: up, Answers: true, Listeners: Listeners{Refused: []string{"no"}}}, api.SessionReconnecting, "no",
		},
		"suspended": {
			Facts{Wanted: true, Host: up, NeedsJob: true, Answers: true, Job: &api.Job{State: api.JobRunning, Reason: api.ReasonSuspended, Hint: "suspended"}},
			api.SessionReconnecting, "suspended",
		},
		"suspended, and so silent": {
			Facts{Wanted: true, Host: up, NeedsJob: true, Served: true, Doing: "no answer", Job: &api.Job{State: api.JobRunning, Reason: api.ReasonSuspended, Hint: "suspended"}},
			api.SessionReconnecting, "suspended",
		},
		"the job ended":       {Facts{Wanted: true, Host: up, Failure: &api.Error{Code: api.CodeJobEnded, Message: "over"}}, api.SessionEnded, "over"},
		"it cannot be had":    {Facts{Wanted: true, Host: up, Failure: &api.Error{Code: api.CodeSubmit, Message: "refused"}}, api.SessionFailed, "refused"},
		"nobody could answer": {Facts{Wanted: true, Host: up, Failure: &api.Error{Code: api.CodeNeedsPerson, Message: "a code"}}, api.SessionNeedsLogin, "a code"},
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
	f := Facts{
		Wanted: true, Served: true, NeedsJob: true, Host: api.Host{State: api.HostNeedsLogin, Cause: "narval needs you"},
		Job: &api.Job{ID: "7", State: api.JobRunning, End: time.Date(2026, 3, 3, 3, 12, 0, 0, time.Local)},
	}
	v := f.Derive(now)
	if v.State != api.SessionNeedsLogin || !strings.Contains(v.Cause, "narval needs you; job 7 reached its time limit at 03:12") {
		t.Errorf("%s: %q", v.State, v.Cause)
	}
}

func TestDeriveOfAJobThatIsNotEntered(t *testing.T) {
	f := Facts{
		Name: "sh", Wanted: true, NeedsJob: true, Host: api.Host{State: api.HostUp}, Doing: "no way in", NotInside: "no way in",
		Job: &api.Job{ID: "7", State: api.JobRunning, Hint: api.HintSpooled},
	}
	if v := f.Derive(time.Now()); !strings.HasPrefix(v.Hint, "this needs ssh to the nodes") { // its output would not help
		t.Errorf("%+v", v)
	}
	f.NotInside = ""
	if v := f.Derive(time.Now()); v.Hint != api.HintSpooled {
		t.Errorf("%+v", v)
	}
}
