package watchui

import (
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/show"
	"tunctl/internal/term"
)

func TestUseIsShownWithItsLimitsAndItsLastHour(t *testing.T) {
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
	d := listed{
		sessions: []api.Session{{Name: "train"}, {Name: "new"}, {Name: "old"}},
		usage: map[string][]api.Usage{
			"train": hour,
			"old":   {{Session: "old", Time: now, Problem: "the site refuses job steps"}},
		},
	}
	want := `SESSION  CPU  MEMORY           GPU       GPU MEMORY       IDLE    LAST HOUR
train    3 %  3.2 GB of 16 GB  0 %, 4 %  1.5 GB of 80 GB  25 min  ▁▁▁▁▁▁▁▁▁██▁▁▁▁▁▁▁▁▁
new      -    -                -         -                -       
  waiting for the first measurement
old      -    -                -         -                -       
  the site refuses job steps
`
	if got := show.Use(d.sessions, d.usage, now).Draw(term.Layout{}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for line := range strings.SplitSeq(show.Use(d.sessions, d.usage, now).Draw(term.Layout{Width: 58}), "\n") {
		if term.TextWidth(line) > 58 || strings.Contains(line, "▁") {
			t.Errorf("on 58 columns: %s", line)
		}
	}
}

func TestTheIdleTimeIsTheSameInTheListAndInTheDetails(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.Local)
	s := api.Session{Name: "train", State: api.SessionReady, Job: &api.Job{ID: "4712", State: api.JobRunning}}
	d := listed{
		sessions: []api.Session{s},
		usage:    map[string][]api.Usage{s.Name: {{Source: api.UsageStep, IdleSince: now.Add(-25*time.Minute - 40*time.Second)}}},
	}
	if list, details := show.Use(d.sessions, d.usage, now).Draw(term.Layout{}), details(term.Layout{}, d, now); !strings.Contains(list, "  26 min") || !strings.Contains(details, "(26 min)") {
		t.Errorf("got\n%s\n%s", list, details)
	}
}

func TestTheDetailsOfAJobAreAllThatIsKnown(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.Local)
	queued := listed{jobs: []api.HostJob{{Host: "narval", Job: api.Job{
		ID: "4711", Name: "train\x1b[2J", State: api.JobQueued, Reason: "Priority", Hint: "other jobs have a higher priority", Queue: "gpu",
		Submitted: now.Add(-time.Hour), ExpectedStart: now.Add(time.Hour),
	}}}}
	got := details(term.Layout{}, queued, now)
	for _, want := range []string{"other jobs have a higher priority", "gpu", "2026-03-02 11:00", "expected start  2026-03-02 13:00"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "\x1b") || strings.Contains(got, "time limit") {
		t.Errorf("got %q", got)
	}
	running := listed{
		sessions: []api.Session{{Name: "jupyter", Host: "narval", State: api.SessionReady, Job: &api.Job{ID: "4712", State: api.JobRunning, Nodes: "nc[1-2]", End: now.Add(time.Hour)}}},
		usage:    map[string][]api.Usage{"jupyter": {{GPUs: []api.GPUUsage{{Name: "A100"}}}}},
	}
	got = details(term.Layout{}, running, now)
	for _, want := range []string{"GPU 0 (A100)", "nc[1-2]", "time limit  2026-03-02 13:00"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
