package action

import (
	"testing"

	"tunctl/internal/api"
)

func TestWhatMayBeChargedCanBeEndedWithoutItsName(t *testing.T) {
	running, ending, over := api.Job{State: api.JobRunning}, api.Job{State: api.JobCompleting}, api.Job{State: api.JobCancelled}
	for name, tt := range map[string]struct {
		s    api.Session
		want bool
	}{
		"its job":                   {api.Session{Job: &running}, true},
		"the one that follows it":   {api.Session{Job: &over, Next: &running}, true},
		"an earlier one":            {api.Session{Others: []api.Job{running}}, true},
		"one that may still appear": {api.Session{Pending: true}, true},
		"one that was cancelled":    {api.Session{Job: &ending}, false},
		"none":                      {api.Session{}, false},
	} {
		if got := MayBeCharged(tt.s); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
