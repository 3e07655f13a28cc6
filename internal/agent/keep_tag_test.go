package agent

import (
	"testing"
	"time"

	"tunctl/internal/api"
)

func TestTheNextJobsTagFollowsFromTheJobAlone(t *testing.T) {
	at := time.Unix(1794837600, 0)
	for _, tt := range []struct {
		job  api.Job
		want string
	}{
		{api.Job{ID: "48213", Submitted: at}, "after-48213-1794837600-0"},
		{api.Job{ID: "48213", Submitted: at.In(time.FixedZone("", 3600)), Name: "other", Node: "cn02"}, "after-48213-1794837600-0"},
		{api.Job{ID: "48213.pbs01", Submitted: at}, "after-48213-1794837600-0"},
		{api.Job{ID: "48213_7", Submitted: at}, "after-48213_7-1794837600-0"},
		{api.Job{ID: "48213[7].pbs01", Submitted: at}, "after-48213-7--1794837600-0"},
		{api.Job{ID: "../../x", Submitted: at}, "after--1794837600-0"},
		{api.Job{ID: "48213", Submitted: at.Add(time.Hour)}, "after-48213-1794841200-0"},
		{api.Job{ID: "48213", Submitted: at, Restarts: 2}, "after-48213-1794837600-0-2"},
	} {
		if got := nextTag(tt.job, 0); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.job, got, tt.want)
		}
	}
}
