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

func TestNotCancelled(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.Local)
	job := func(state api.JobState, end time.Duration) *api.Job {
		return &api.Job{ID: "1", State: state, End: now.Add(end)}
	}
	for want, s := range map[string]api.Session{
		"nothing was cancelled": {},
		"nothing was cancelled; job 1 keeps running and is charged until 13:00 at most": {Job: job(api.JobRunning, time.Hour)},
		"nothing was cancelled; job 1 keeps running and is charged while it runs":       {Job: job(api.JobRunning, 0)},
		"nothing was cancelled; job 1 is still queued and will run":                     {Job: job(api.JobHeld, 0)},
		"nothing was cancelled; job 1 is about to end; job 2 keeps running and is charged while it runs": {
			Job: job(api.JobCompleting, 0), Others: []api.Job{{ID: "2", State: api.JobRunning}},
		},
	} {
		if got := NotCancelled(now, s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestDownTexts(t *testing.T) {
	cancelled := func(id string) api.Job { return api.Job{ID: id, State: api.JobCancelled} }
	own := cancelled("1")
	for name, tt := range map[string]struct {
		s    api.Session
		want []string
	}{
		"all were cancelled": {api.Session{Name: "nb", State: api.SessionDown, Job: &own, Others: []api.Job{cancelled("2"), cancelled("3")}}, []string{"nb is down; job 1 was cancelled", "job 2 was cancelled", "job 3 was cancelled"}},
		"some keep running": {
			api.Session{Name: "nb", Host: "m3", State: api.SessionDown, Others: []api.Job{{ID: "2", State: api.JobRunning}}},
			[]string{"nb is disconnected", "also: job 2 on m3 is running and is charged while it runs: `tunctl cancel m3 2` ends it"},
		},
		"one is about to end": {api.Session{Name: "nb", State: api.SessionDown, Job: &api.Job{ID: "1", State: api.JobCompleting}}, []string{"nb is ending; job 1 is about to end"}},
	} {
		if got := DownTexts(api.DownResponse{Sessions: []api.Session{tt.s}}, api.Status{}, time.Now()); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
