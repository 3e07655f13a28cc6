package agent

import (
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
)

func TestEarlierWaitsAreThoseOfJobsLikeThisOne(t *testing.T) {
	begin := time.Date(2026, 3, 2, 13, 0, 0, 0, time.UTC)
	run := func(session, host, name string, waited time.Duration) api.Run {
		return api.Run{Session: session, Host: host, Job: api.Job{Name: name, Submitted: begin, Start: begin.Add(waited)}}
	}
	many := []api.Run{run("nb", "narval", "lab", 9*time.Hour)}
	for i := range waitsCounted {
		many = append(many, run("nb", "narval", "lab", time.Duration(2+i)*time.Minute))
	}
	for name, tt := range map[string]struct {
		runs []api.Run
		want string
	}{
		"none": {nil, ""},
		"others only": {[]api.Run{
			run("nb", "fir", "lab", time.Hour), run("other", "narval", "train", time.Hour),
			{Session: "nb", Host: "narval", Job: api.Job{Submitted: begin}},
		}, ""},
		"one":            {[]api.Run{run("nb", "narval", "", 3*time.Minute)}, "an earlier job like this waited 3 min"},
		"the same name":  {[]api.Run{run("attached", "narval", "lab", 26*time.Hour)}, "an earlier job like this waited 1 d 2 h 00 min"},
		"all alike":      {[]api.Run{run("nb", "narval", "lab", time.Second), run("nb", "narval", "lab", time.Minute/2)}, "earlier jobs like this waited less than 1 min (2 runs)"},
		"the newest ten": {many, "earlier jobs like this waited 2 to 11 min (10 runs)"},
		"hours":          {[]api.Run{run("nb", "narval", "lab", 2*time.Minute), run("nb", "narval", "lab", 3*time.Hour+10*time.Minute)}, "earlier jobs like this waited 2 min to 3 h 00 min (2 runs)"},
		"days":           {[]api.Run{run("nb", "narval", "lab", 72*time.Hour)}, "an earlier job like this waited 3 d 0 h 00 min"},
	} {
		if got := earlierWaits(tt.runs, "narval", "nb", "lab"); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestAQueuedJobSaysHowLongEarlierOnesWaited(t *testing.T) {
	s := quietSession(t)
	submitted := time.Now().Add(-time.Hour)
	s.chronicle(api.Job{ID: "6", State: api.JobFinished, Submitted: submitted, Start: submitted.Add(5 * time.Minute), End: submitted.Add(time.Hour)})
	s.change(func(f *facts) { f.wanted, f.needsJob, f.host = true, true, api.Host{State: api.HostUp} })
	if err := s.adopt(api.Job{ID: "7", State: api.JobQueued, Reason: "Resources"}, "", ""); err != nil {
		t.Fatal(err)
	}
	if now := s.status(); now.State != api.SessionQueued || !strings.Contains(now.Cause, "Resources; an earlier job like this waited 5 min") {
		t.Errorf("%s: %q", now.State, now.Cause)
	}
}
