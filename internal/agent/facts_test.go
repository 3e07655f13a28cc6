package agent

import (
	"strings"
	"testing"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/jobwatch"
)

func TestAStateFollowsFromTheFacts(t *testing.T) {
	now := time.Date(2026, 3, 2, 13, 0, 0, 0, time.Local)
	up := api.Host{State: api.HostUp}
	stalled := api.Host{State: api.HostUp, Cause: "not responding", NotRespondingSince: now}
	job := func(state api.JobState) *api.Job { return &api.Job{ID: "7", State: state} }
	endpoint := &api.Endpoint{Host: "cn01", Port: 8123}
	tests := map[string]struct {
		facts facts
		state api.SessionState
		cause string
	}{
		"nobody wants it":              {facts{host: up}, api.SessionDown, ""},
		"the host is being dialled":    {facts{wanted: true, host: api.Host{State: api.HostConnecting, Cause: "dialling"}}, api.SessionConnecting, "dialling"},
		"the host waits for a network": {facts{wanted: true, host: api.Host{State: api.HostWaiting, Cause: "no route"}}, api.SessionConnecting, "no route"},
		"the host needs a person":      {facts{wanted: true, host: api.Host{State: api.HostNeedsLogin, Cause: "a code"}}, api.SessionNeedsLogin, "a code"},
		"the host may have banned us":  {facts{wanted: true, host: api.Host{State: api.HostBlocked, Cause: "banned"}}, api.SessionFailed, "banned"},
		"a person logged out":          {facts{wanted: true, served: true, host: api.Host{Alias: "narval", State: api.HostDown}}, api.SessionNeedsLogin, "you logged out of narval"},
		"the link is lost":             {facts{wanted: true, served: true, host: api.Host{State: api.HostWaiting}}, api.SessionReconnecting, ""},
		"the host does not respond":    {facts{wanted: true, served: true, answers: true, host: stalled}, api.SessionReconnecting, "not responding"},
		"it does not respond at first": {facts{wanted: true, needsJob: true, host: stalled}, api.SessionConnecting, "not responding"},
		"no job yet":                   {facts{wanted: true, host: up, needsJob: true, doing: "looking"}, api.SessionSubmitting, "looking"},
		"being submitted":              {facts{wanted: true, host: up, needsJob: true, submitting: true, job: job(api.JobQueued), doing: "submitting"}, api.SessionSubmitting, "submitting"},
		"held":                         {facts{wanted: true, host: up, needsJob: true, job: job(api.JobHeld)}, api.SessionQueued, "waiting in the queue"},
		"queued with a reason": {
			facts{wanted: true, host: up, needsJob: true, job: &api.Job{State: api.JobQueued, Reason: "Resources", ExpectedStart: now.Add(65 * time.Minute)}},
			api.SessionQueued, "Resources, expected start 14:05",
		},
		"queued until tomorrow": {
			facts{wanted: true, host: up, needsJob: true, job: &api.Job{State: api.JobQueued, Reason: "Priority", Hint: "other jobs have a higher priority", ExpectedStart: now.Add(24 * time.Hour)}},
			api.SessionQueued, "other jobs have a higher priority (Priority), expected start Tue 3 Mar 13:00",
		},
		"queued for ever, whatever earlier jobs waited": {
			facts{wanted: true, host: up, needsJob: true, waits: "an earlier job waited 5 min", job: &api.Job{State: api.JobQueued, Hint: jobwatch.NeverStarts + ": too long"}},
			api.SessionQueued, jobwatch.NeverStarts + ": too long",
		},
		"runs and says nothing": {facts{wanted: true, host: up, needsJob: true, job: job(api.JobRunning), doing: "waiting"}, api.SessionStarting, "waiting"},
		"its node is prepared": {
			facts{wanted: true, host: up, needsJob: true, doing: "waiting", job: &api.Job{State: api.JobRunning, Reason: "Prolog", Hint: "being prepared"}},
			api.SessionStarting, "being prepared",
		},
		"answers":           {facts{wanted: true, host: up, needsJob: true, job: job(api.JobRunning), endpoint: endpoint, answers: true}, api.SessionReady, ""},
		"stopped answering": {facts{wanted: true, host: up, needsJob: true, served: true, job: job(api.JobRunning), doing: "no answer"}, api.SessionReconnecting, "no answer"},
		"the scheduler is silent": {
			facts{wanted: true, host: up, needsJob: true, answers: true, job: &api.Job{State: api.JobUnknown, Hint: "no answer since 13:00"}},
			api.SessionReady, "no answer since 13:00",
		},
		"only forwards": {facts{wanted: true, host: up, answers: true}, api.SessionReady, ""},
		"the host is asked to listen": {
			facts{wanted: true, host: up, answers: true, listeners: hostListeners{pending: "asking", refused: []string{"no"}}}, api.SessionConnecting, "asking",
		},
		"the host refused to listen": {
			facts{wanted: true, host: up, answers: true, listeners: hostListeners{refused: []string{"no", "nor there"}}}, api.SessionFailed, "no; nor there",
		},
		"the host refused to listen for one of them": {
			facts{wanted: true, host: up, answers: true, listeners: hostListeners{refused: []string{"no"}, others: true}}, api.SessionReady, "no",
		},
		"the host does not listen again yet": {
			facts{wanted: true, served: true, host: up, answers: true, listeners: hostListeners{refused: []string{"no"}}}, api.SessionReconnecting, "no",
		},
		"suspended": {
			facts{wanted: true, host: up, needsJob: true, answers: true, job: &api.Job{State: api.JobRunning, Reason: jobwatch.Suspended, Hint: "suspended"}},
			api.SessionReady, "suspended",
		},
		"suspended, and so silent": {
			facts{wanted: true, host: up, needsJob: true, served: true, doing: "no answer", job: &api.Job{State: api.JobRunning, Reason: jobwatch.Suspended, Hint: "suspended"}},
			api.SessionReconnecting, "suspended",
		},
		"the job ended":       {facts{wanted: true, host: up, failure: &api.Error{Code: api.CodeJobEnded, Message: "over"}}, api.SessionEnded, "over"},
		"it cannot be had":    {facts{wanted: true, host: up, failure: &api.Error{Code: api.CodeSubmit, Message: "refused"}}, api.SessionFailed, "refused"},
		"nobody could answer": {facts{wanted: true, host: up, failure: &api.Error{Code: api.CodeNeedsPerson, Message: "a code"}}, api.SessionNeedsLogin, "a code"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v := tt.facts.derive(now)
			if v.state != tt.state || v.cause != tt.cause {
				t.Errorf("derive = %s %q, want %s %q", v.state, v.cause, tt.state, tt.cause)
			}
		})
	}
}

func TestAnEndIsToldFromAFailure(t *testing.T) {
	exit, lab := 3, configs.Session{Name: "lab", Host: "narval", Submit: "~/lab.sh"}
	failed := endedError(lab, &api.Job{ID: "7", State: api.JobFailed, Exit: &exit}, false, "no such module", "fix the job script")
	if failed.Code != api.CodeFailed || !strings.Contains(failed.Message, "job 7 failed with exit status 3, before it served anything") ||
		!strings.Contains(failed.Message, "no such module") {
		t.Errorf("a job that never served: %+v", failed)
	}
	unrouted := endedError(lab, &api.Job{ID: "7", State: api.JobNeverRan, Hint: "no queue accepts it"}, false, "", "fix the job script")
	if !strings.HasPrefix(unrouted.Hint, "no queue accepts it") || strings.Contains(unrouted.Hint, "log") {
		t.Errorf("a job that never ran: %+v", unrouted)
	}
	gone := endedError(lab, &api.Job{ID: "7", State: api.JobFinished, Reason: jobwatch.Gone, Hint: "how it ended is not known"}, true, "", "")
	if !strings.Contains(gone.Message, "how it ended is not known") {
		t.Errorf("a job that is gone: %+v", gone)
	}
	ended := endedError(lab, &api.Job{ID: "7", State: api.JobTimeout}, true, "", "")
	if ended.Code != api.CodeJobEnded || ended.Message != "job 7 reached its time limit" {
		t.Errorf("a job that served: %+v", ended)
	}
	lab.Submit = ""
	for _, e := range []*api.Error{
		endedError(lab, &api.Job{ID: "7", State: api.JobTimeout}, true, "", ""),
		endedError(lab, &api.Job{ID: "7", State: api.JobFailed}, false, "", "fix the job script"),
	} {
		if !strings.Contains(e.Hint, "start the job on narval") || strings.Contains(e.Hint, "starts a new one") {
			t.Errorf("nothing submits this session's job, and the hint is %q", e.Hint)
		}
	}
}

func TestMovedTellsARequeueFromAStart(t *testing.T) {
	queued := api.Job{State: api.JobQueued}
	running := api.Job{State: api.JobRunning, Node: "cn01"}
	elsewhere := api.Job{State: api.JobRunning, Node: "cn02"}
	again := api.Job{State: api.JobRunning, Node: "cn01", Restarts: 1}
	silent := api.Job{State: api.JobUnknown}
	tests := []struct {
		name     string
		was, now api.Job
		want     bool
	}{
		{"it starts", queued, running, false},
		{"it goes on", running, running, false},
		{"another node", running, elsewhere, true},
		{"restarted on the same node", running, again, true},
		{"back in the queue", running, queued, true},
		{"no answer", running, silent, false},
		{"an array's next task on the same node", api.Job{State: api.JobRunning, Node: "cn01", Task: "1"}, api.Job{State: api.JobRunning, Node: "cn01", Task: "2"}, true},
		{"the rest of an array waits", api.Job{State: api.JobCompleting, Node: "cn01", Task: "1"}, queued, true},
	}
	for _, tt := range tests {
		if got := moved(tt.was, tt.now); got != tt.want {
			t.Errorf("%s: moved = %v", tt.name, got)
		}
	}
}
