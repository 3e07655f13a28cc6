package submit

import (
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch"
)

func TestOnlyAnAnswerToALaterQuerySettlesAPermission(t *testing.T) {
	now := time.Now()
	p := Permit{given: now}
	for name, tt := range map[string]struct {
		report jobwatch.Report
		want   bool
	}{
		"a later query":    {jobwatch.Report{Job: api.Job{State: api.JobQueued}, Asked: now.Add(time.Second)}, true},
		"one under way":    {jobwatch.Report{Job: api.Job{State: api.JobRunning}, Asked: now.Add(-time.Second)}, false},
		"no query":         {jobwatch.Report{Job: api.Job{State: api.JobRunning}}, false},
		"about to end":     {jobwatch.Report{Job: api.Job{State: api.JobCompleting}, Asked: now.Add(time.Second)}, false},
		"no answer":        {jobwatch.Report{Job: api.Job{State: api.JobUnknown}, Asked: now.Add(time.Second)}, false},
		"ended, so submit": {jobwatch.Report{Job: api.Job{State: api.JobFinished}, Asked: now.Add(time.Second)}, false},
	} {
		if got := p.SettledBy(tt.report); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
