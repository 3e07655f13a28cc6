package state

import (
	"slices"
	"testing"
	"time"

	"tunctl/internal/api"
)

func TestASummaryAddsUpTheHoursOfEachWeek(t *testing.T) {
	run := func(session string, submitted time.Time, waited, ran time.Duration, change func(*api.Run)) api.Run {
		start := submitted.Add(waited)
		r := api.Run{Session: session, Host: "narval", Asked: 8 * 3600, Job: api.Job{Submitted: submitted, Start: start, End: start.Add(ran)}}
		if change != nil {
			change(&r)
		}
		return r
	}
	monday := time.Date(2026, 11, 16, 0, 30, 0, 0, time.Local)
	sunday := monday.Add(-time.Hour)
	got := Summarize([]api.Run{
		run("nb", sunday.Add(-9*time.Hour), time.Minute, 8*time.Hour, nil),
		run("nb", sunday, time.Minute, 2*time.Hour, nil), // over midnight: it ended on Monday
		run("nb", monday, time.Hour, 3*time.Hour, func(r *api.Run) { r.Idle = 1800 }),
		run("nb", monday, time.Hour, 3*time.Hour, func(r *api.Run) { r.GPUs, r.Idle = 2, 5*3600 }), // measured longer than it ran
		run("nb", monday, 0, time.Hour, func(r *api.Run) { r.GPUs = 4 }),
		run("whole", monday, 0, time.Hour, func(r *api.Run) { r.GPUs, r.Nodes = 4, 2 }),
		run("nb", monday, 5*time.Hour, time.Hour, func(r *api.Run) { r.Host, r.Job.Restarts = "fir", 1 }), // it had run before
		{Session: "gone", Host: "narval", Noted: monday, Job: api.Job{State: api.JobNeverRan}},
	})
	const h = 3600
	want := []api.WeekSummary{
		{Week: "2026-11-16", Session: "gone", Host: "narval", Jobs: 1, Unit: api.JobSeconds},
		{Week: "2026-11-16", Session: "nb", Host: "fir", Jobs: 1, Unit: api.JobSeconds, Asked: 8 * h, Used: h},
		{Week: "2026-11-16", Session: "nb", Host: "narval", Jobs: 2, Unit: api.GPUSeconds, Asked: 48 * h, Used: 10 * h, Idle: 6 * h, Waited: h},
		{Week: "2026-11-16", Session: "nb", Host: "narval", Jobs: 2, Unit: api.JobSeconds, Asked: 16 * h, Used: 5 * h, Idle: h / 2, Waited: h + 60},
		{Week: "2026-11-16", Session: "whole", Host: "narval", Jobs: 1, Unit: api.NodeSeconds, Asked: 16 * h, Used: 2 * h},
		{Week: "2026-11-09", Session: "nb", Host: "narval", Jobs: 1, Unit: api.JobSeconds, Asked: 8 * h, Used: 8 * h, Waited: 60},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
