package agent

import (
	"testing"
	"time"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/jobwatch"
)

func TestTheNextJobsTagFollowsFromTheJobAlone(t *testing.T) {
	at := time.Unix(1794837600, 0)
	for _, tt := range []struct {
		job  api.Job
		want string
	}{
		{api.Job{ID: "48213", Submitted: at}, "after-48213-1794837600"},
		{api.Job{ID: "48213", Submitted: at.In(time.FixedZone("", 3600)), Name: "other", Node: "cn02"}, "after-48213-1794837600"},
		{api.Job{ID: "48213.pbs01", Submitted: at}, "after-48213-1794837600"},
		{api.Job{ID: "48213_7", Submitted: at}, "after-48213_7-1794837600"},
		{api.Job{ID: "48213[7].pbs01", Submitted: at}, "after-48213-7--1794837600"},
		{api.Job{ID: "../../x", Submitted: at}, "after--1794837600"},
		{api.Job{ID: "48213", Submitted: at.Add(time.Hour)}, "after-48213-1794841200"},
	} {
		if got := nextTag(tt.job); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.job, got, tt.want)
		}
	}
}

func TestAJobThatFollowsIsKnownToBeSubmittedByTunctl(t *testing.T) {
	job := func(id string) *api.Job { return &api.Job{ID: id} }
	rec := state.Session{Tag: "first", Job: job("1"), NextTag: "after-1", Next: job("2")}
	for name, tt := range map[string]struct {
		rec   state.Session
		query jobwatch.Query
		found string
		want  string
	}{
		"the recorded job":            {rec, jobwatch.Query{ID: "1"}, "1", "first"},
		"the next one":                {rec, jobwatch.Query{ID: "2"}, "2", "after-1"},
		"the next one, by its tag":    {rec, jobwatch.Query{Tag: "after-1"}, "2", "after-1"},
		"after the end of the first":  {state.Session{NextTag: "after-1", Next: job("2")}, jobwatch.Query{ID: "2"}, "2", "after-1"},
		"another one of the name":     {rec, jobwatch.Query{Name: "nb"}, "3", ""},
		"the recorded one, by name":   {rec, jobwatch.Query{Name: "nb"}, "1", "first"},
		"one whose answer was lost":   {state.Session{Tag: "first"}, jobwatch.Query{Name: "nb"}, "1", "first"},
		"one that tunctl did not see": {state.Session{}, jobwatch.Query{Name: "nb"}, "3", ""},
	} {
		if got := tagOf(tt.rec, tt.query, *job(tt.found)); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
