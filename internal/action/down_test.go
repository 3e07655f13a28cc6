package action

import (
	"slices"
	"testing"
	"time"

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

func TestCancelQuestion(t *testing.T) {
	now := time.Now()
	running := func(id string) api.Job { return api.Job{ID: id, State: api.JobRunning} }
	own, next := running("1"), running("2")
	s := api.Session{Name: "nb", Job: &own, Next: &next, Others: []api.Job{running("3"), {ID: "4", State: api.JobFinished}}, Pending: true}
	if got, want := CancelQuestion(now, s, api.Session{Name: "b"}), "End job 1, running and job 2, running and job 3, running and the job of nb that may still appear?"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := CancelQuestion(now, api.Session{Name: "b"}); got != "" {
		t.Errorf("without a job: %q", got)
	}
}

func TestDownTexts(t *testing.T) {
	cancelled := func(id string) api.Job { return api.Job{ID: id, State: api.JobCancelled} }
	own := cancelled("1")
	for name, tt := range map[string]struct {
		s    api.Session
		want []string
	}{
		"all were cancelled": {api.Session{Name: "nb", Job: &own, Others: []api.Job{cancelled("2"), cancelled("3")}}, []string{"nb is down; job 1 was cancelled", "job 2 was cancelled", "job 3 was cancelled"}},
		"some keep running": {
			api.Session{Name: "nb", Host: "m3", Others: []api.Job{{ID: "2", State: api.JobRunning}}},
			[]string{"nb is down", "also: job 2 on m3 is running and is charged while it runs: `tunctl cancel m3 2` ends it"},
		},
		"one is about to end": {api.Session{Name: "nb", Job: &api.Job{ID: "1", State: api.JobCompleting}}, []string{"nb is down; job 1 is about to end"}},
	} {
		if got := DownTexts(api.DownResponse{Sessions: []api.Session{tt.s}}, api.Status{}, time.Now()); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
