package watchui

import (
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/show"
	"tunctl/internal/term"
)

func TestUseLastHour(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.Local)
	part := func(p float64) *float64 { return &p }
	var hour []api.Usage
	for minute := range 60 { // it was busy half an hour ago
		u := api.Usage{Session: "train", Time: now.Add(time.Duration(minute-59) * time.Minute), Source: api.UsageStep, CPUPercent: part(3)}
		if minute >= 27 && minute < 33 {
			u.GPUs = []api.GPUUsage{{Percent: part(100)}}
		}
		hour = append(hour, u)
	}
	last := &hour[len(hour)-1]
	last.Memory, last.MemoryLimit, last.IdleSince = 3_200_000_000, 16_000_000_000, now.Add(-25*time.Minute)
	last.GPUs = []api.GPUUsage{{Percent: part(0), Memory: 1_000_000_000, MemoryTotal: 40_000_000_000}, {Percent: part(4), Memory: 500_000_000, MemoryTotal: 40_000_000_000}}
	table := show.Use([]api.Session{{Name: "train"}, {Name: "new"}, {Name: "old"}}, map[string][]api.Usage{
		"train": hour,
		"old":   {{Session: "old", Time: now, Problem: "the site refuses job steps"}},
	}, now)
	want := `SESSION  CPU  MEMORY           GPU       GPU MEMORY       IDLE    LAST HOUR
train    3 %  3.2 GB of 16 GB  0 %, 4 %  1.5 GB of 80 GB  25 min  ▁▁▁▁▁▁▁▁▁██▁▁▁▁▁▁▁▁▁
new      -    -                -         -                -       
  waiting for the first measurement
old      -    -                -         -                -       
  the site refuses job steps
`
	if got := table.Draw(term.Layout{}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for line := range strings.SplitSeq(table.Draw(term.Layout{Width: 58}), "\n") {
		if term.TextWidth(line) > 58 || strings.Contains(line, "▁") {
			t.Errorf("on 58 columns: %s", line)
		}
	}
}

func TestUseIdleTime(t *testing.T) {
	s := api.Session{Name: "train", State: api.SessionReady, Job: &api.Job{ID: "4712", State: api.JobRunning}}
	b := newBench(t, Options{Status: api.Status{Sessions: []api.Session{s}}}).press("3")
	b.send(usageMsg{Session: s.Name, Source: api.UsageStep, IdleSince: noon.Add(-25*time.Minute - 40*time.Second)})
	b.shows("  26 min")
	b.press("enter").shows("(26 min)")
}

func TestDetails(t *testing.T) {
	job := api.Job{ID: "4712", State: api.JobRunning, Nodes: "nc[1-2]", End: noon.Add(time.Hour)}
	b := newBench(t, Options{Status: api.Status{Sessions: []api.Session{{Name: "jupyter", Host: "narval", State: api.SessionReady, Job: &job}}}})
	b.press("2").send(jobsMsg{{Host: "narval", Job: api.Job{
		ID: "4711", Name: "train\x1b[2J", State: api.JobQueued, Reason: "Priority", Hint: "other jobs have a higher priority", Queue: "gpu",
		Submitted: noon.Add(-time.Hour), ExpectedStart: noon.Add(time.Hour),
	}}}).press("enter")
	b.shows("other jobs have a higher priority", "gpu", "2026-03-02 11:00", "expected start  2026-03-02 13:00")
	if strings.Contains(b.screen(), "\x1b") || strings.Contains(b.screen(), "time limit") {
		t.Errorf("got %q", b.screen())
	}
	b.press("esc", "o").shows("job 4711 belongs to no session")
	b.press("enter").send(jobsMsg{}) // while it is shown
	b.press("3").send(usageMsg{Session: "jupyter", Time: noon, GPUs: []api.GPUUsage{{Name: "A100"}}}).press("enter")
	b.shows("GPU 0 (A100)", "nc[1-2]", "time limit  2026-03-02 13:00")
}
