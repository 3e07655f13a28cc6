package facts

import (
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/forward"
)

// stepStates are the states on the way to a page, in order.
var stepStates = []api.SessionState{api.SessionConnecting, api.SessionSubmitting, api.SessionQueued, api.SessionStarting}

// steps are those to a job's page that was not open yet; nil if it was, or if the session is on
// no way to it. The current one began at since, unless the job's own times are known.
func (f *Facts) steps(state api.SessionState, since time.Time) []forward.Step {
	login := state == api.SessionNeedsLogin
	if login {
		state = api.SessionConnecting
	}
	now := slices.Index(stepStates, state)
	if !f.NeedsJob || f.Served || now < 0 {
		return nil
	}
	var job api.Job
	if f.Job() != nil {
		job = *f.Job()
	}
	texts := []struct{ coming, current, done string }{
		{"", "Connecting to " + f.Host.Alias, "Connected to " + f.Host.Alias},
		{"Job", "Submitting the job", "Job " + job.ID},
		{"Queue", "Waiting in the queue", "Queue"},
		{"Start", strings.TrimSuffix("Starting on "+job.Node, " on "), ""},
	}
	if login {
		texts[0].current = "Login to " + f.Host.Alias
	}
	steps := make([]forward.Step, len(texts))
	for i, text := range texts {
		switch {
		case i < now:
			steps[i] = forward.Step{State: forward.StepDone, Text: text.done}
		case i == now:
			steps[i] = forward.Step{State: forward.StepCurrent, Text: text.current, Since: since}
		default:
			steps[i] = forward.Step{State: forward.StepComing, Text: text.coming}
		}
	}
	switch {
	case state == api.SessionQueued && !job.Submitted.IsZero():
		steps[now].Since = job.Submitted
	case state == api.SessionStarting && !job.Start.IsZero():
		steps[now].Since = job.Start
		if !job.Submitted.IsZero() {
			steps[now-1].Took = job.Start.Sub(job.Submitted)
		}
	}
	return steps
}
