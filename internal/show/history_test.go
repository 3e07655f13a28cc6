package show

import (
	"testing"
	"time"

	"tunctl/internal/api"
)

func TestAbsence(t *testing.T) {
	now := time.Date(2026, 11, 19, 8, 0, 0, 0, time.Local)
	since := now.Add(-10 * time.Hour)
	job := &api.Job{ID: "9", State: api.JobRunning, Start: now.Add(-2 * time.Hour)}
	runs := []api.Run{
		{Session: "old", Why: "job 1 finished", Noted: since.Add(-time.Minute)},
		{Session: "nb", Why: "job 7 ended after 120 minutes without use", Noted: now.Add(-5 * time.Hour), Idle: 7200, Job: api.Job{ID: "7", Start: since.Add(-time.Hour), End: now.Add(-5 * time.Hour)}},
	}
	st := api.Status{Sessions: []api.Session{
		{Name: "train", State: api.SessionReady, Job: job}, {Name: "vpn", State: api.SessionNeedsLogin}, {Name: "lab", State: api.SessionReady, Cells: api.Cells{Finished: 2}},
	}}
	want := "Since Wed 22:00: nb: job 7 ended after 120 minutes without use; train: job 9 started at 06:00; vpn needs a login; lab: 2 cells finished while the page was closed; jobs were charged for 7 h 00 min, 2 h 00 min of it without use."
	if got := Absence(st, runs, since, now); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := Absence(api.Status{}, runs[:1], since, now); got != "" {
		t.Errorf("nothing happened: %q", got)
	}
}
