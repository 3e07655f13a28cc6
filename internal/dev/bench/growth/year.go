//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/dev/bench/table"
)

// measureYear lives through days with many jobs, each with a new session that is in no
// config, as `tunctl attach` makes them, and looks at the files.
func measureYear(ctx context.Context) ([]table.Growth, error) {
	rows := []table.Growth{
		{Measure: "days of use, size of the history", Unit: "KB"},
		{Measure: "days of use, size of the state", Unit: "KB"},
		{Measure: "days of use, history read", Unit: "ms"},
		{Measure: "days of use, one change saved", Unit: "ms"},
	}
	for _, days := range []int{30, 365} {
		costs, err := live(ctx, days)
		if err != nil {
			return nil, fmt.Errorf("%d days: %w", days, err)
		}
		for i := range rows {
			rows[i].Sizes, rows[i].Costs = append(rows[i].Sizes, float64(days)), append(rows[i].Costs, costs[i])
		}
	}
	return rows, nil
}

const jobsPerDay = 12

func live(ctx context.Context, days int) ([]float64, error) {
	dir, err := os.MkdirTemp("", "tunctl-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	stateFile, historyFile := filepath.Join(dir, "state.json"), filepath.Join(dir, "history.jsonl")
	store, err := state.Open(stateFile)
	if err != nil {
		return nil, err
	}
	history := state.NewHistory(historyFile)
	saved := table.Samples{}
	begin := time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC)
	for day := range days {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		today := begin.AddDate(0, 0, day)
		for i := range jobsPerDay {
			job := yearJob(day*jobsPerDay+i, today)
			asked := time.Now()
			attached := state.Submissions{{Role: state.RoleJob, Job: &job, Host: "narval"}}
			if err := store.Update("narval-"+job.ID, func(r *state.Session) { *r = state.Session{Attached: "narval", Submissions: attached} }); err != nil {
				return nil, err
			}
			saved.Add("save", float64(time.Since(asked))/float64(time.Millisecond))
			if err := history.Add(api.Run{Session: "narval-" + job.ID, Host: "narval", Job: job, Noted: job.End}); err != nil {
				return nil, err
			}
		}
	}
	asked := time.Now()
	if _, err := history.EarlierWaits("narval", "nb", "lab"); err != nil {
		return nil, err
	}
	read := float64(time.Since(asked)) / float64(time.Millisecond)
	sizes := make([]float64, 0, 2)
	for _, file := range []string{historyFile, stateFile} {
		info, err := os.Stat(file)
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, float64(info.Size())/1e3)
	}
	return []float64{sizes[0], sizes[1], read, saved.Median("save")}, nil
}

func yearJob(n int, day time.Time) api.Job {
	id := fmt.Sprint(48_000_000 + n)
	start := day.Add(time.Duration(n%jobsPerDay) * time.Hour)
	return api.Job{
		ID: id, Name: "lab", Queue: "gpu", State: api.JobTimeout, Node: fmt.Sprintf("ng%05d", n%3000),
		Script: "/home/u/run-" + id + "/lab.sh", Log: "/home/u/run-" + id + "/slurm-" + id + ".out",
		Submitted: start.Add(-10 * time.Minute), Start: start, End: start.Add(time.Hour),
	}
}
