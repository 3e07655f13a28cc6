package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/term"
	"tunctl/internal/watchui"
)

// watchTable has the rows of a view of `tunctl status --watch`.
func watchTable(view watchui.View, d watchui.Data, now time.Time) *term.Table {
	switch view {
	case watchui.Jobs:
		return jobsTable(d.Jobs, true, now)
	case watchui.Use:
		return useTable(d, now)
	case watchui.Hosts:
		return hostsTable(d.Hosts, nil, now)
	}
	return sessionsTable(d.Sessions, now)
}

// watchDetails is all that is known about the only session, job or host.
func watchDetails(l term.Layout, d watchui.Data, now time.Time) string {
	switch {
	case len(d.Sessions) == 1:
		s := d.Sessions[0]
		if list := d.Usage[s.Name]; len(list) > 0 {
			s.Usage = &list[len(list)-1]
		}
		text := sessionsTable([]api.Session{s}, now).Draw(l)
		if s.Job != nil {
			text += "\n" + factsText(l, jobFacts(*s.Job, s.Host, now))
		}
		return text
	case len(d.Jobs) == 1:
		return jobsTable(d.Jobs, true, now).Draw(l) + "\n" + factsText(l, jobFacts(d.Jobs[0].Job, d.Jobs[0].Host, now))
	case len(d.Hosts) == 1:
		return hostPage(l, d.Hosts[0], now)
	}
	return ""
}

// jobFacts are names and values; an empty value is unknown.
func jobFacts(j api.Job, host string, now time.Time) [][2]string {
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return minuteTime(t)
	}
	ends := "ended"
	if !j.State.Ended() {
		ends = "time limit"
	}
	facts := [][2]string{
		{"job", j.ID},
		{"name", j.Name},
		{"state", string(j.State)},
		{"reason", whyText(j)},
		{"host", host},
		{"node", cmp.Or(j.Nodes, j.Node)},
		{"queue", j.Queue},
		{"submitted", at(j.Submitted)},
		{"started", at(j.Start)},
		{ends, at(j.End)},
		{"log", j.Log},
		{"other logs", strings.Join(j.OtherLogs, ", ")},
	}
	if j.State.Waiting() && j.ExpectedStart.After(now) {
		facts = append(facts, [2]string{"expected start", at(j.ExpectedStart)})
	}
	if j.Restarts > 0 {
		facts = append(facts, [2]string{"restarts", fmt.Sprint(j.Restarts)})
	}
	for i := range facts {
		facts[i][1] = strings.ReplaceAll(api.Sanitize(facts[i][1]), "\n", " ")
	}
	return facts
}

// useTable has what the jobs of sessions use, as far as it is known.
func useTable(d watchui.Data, now time.Time) *term.Table {
	t := &term.Table{
		Header: []string{"SESSION", "CPU", "MEMORY", "GPU", "GPU MEMORY", "IDLE", "LAST HOUR"},
		Whole:  []string{"SESSION", "CPU", "MEMORY", "GPU"}, Optional: []string{"LAST HOUR"},
	}
	for _, s := range d.Sessions {
		list := d.Usage[s.Name]
		last := api.Usage{}
		if len(list) > 0 {
			last = list[len(list)-1]
		}
		var notes []string
		switch {
		case last.Problem != "":
			notes = []string{last.Problem}
		case len(list) == 0:
			notes = []string{"waiting for the first measurement"}
		case last.Source == api.UsageScheduler:
			notes = []string{"from the scheduler's accounting, measured at " + api.ClockText(last.Time, now)}
		}
		gpu, gpuMemory := gpuTexts(last.GPUs)
		t.Add(notes, term.Cell{Text: s.Name, Colour: term.Bold}, term.Cell{Text: percentText(last.CPUPercent)}, term.Cell{Text: memoryCell(last.Memory, last.MemoryLimit)},
			term.Cell{Text: gpu}, term.Cell{Text: gpuMemory}, term.Cell{Text: orDash(idleText(last.IdleSince, now)), Colour: term.Yellow}, term.Cell{Text: sparkline(list, now), Colour: term.Grey})
	}
	return t
}

// gpuTexts are the use and the memory of all GPUs of a job.
func gpuTexts(gpus []api.GPUUsage) (use, memory string) {
	var uses []string
	var part, whole int64
	for _, g := range gpus {
		uses = append(uses, percentText(g.Percent))
		part, whole = part+g.Memory, whole+g.MemoryTotal
	}
	return orDash(strings.Join(uses, ", ")), memoryCell(part, whole)
}

func memoryCell(used, limit int64) string {
	if used == 0 {
		return "-"
	}
	return memoryText(used, limit)
}

// sparkline shows the busiest of CPU and GPU over the last hour, in bars of three minutes;
// a space is a time without a measurement.
func sparkline(list []api.Usage, now time.Time) string {
	const bars, each = 20, 3 * time.Minute
	levels := []rune("▁▂▃▄▅▆▇█")
	line := []rune(strings.Repeat(" ", bars))
	most := make([]float64, bars)
	for _, u := range list {
		i := bars - 1 - int(now.Sub(u.Time)/each)
		busy := busiest(u)
		if i < 0 || i >= bars || busy < 0 {
			continue
		}
		most[i] = max(most[i], busy)
		line[i] = levels[min(int(most[i]/100*float64(len(levels))), len(levels)-1)]
	}
	return strings.TrimLeft(string(line), " ")
}

// busiest is the highest percentage of a measurement, -1 if it has none.
func busiest(u api.Usage) float64 {
	most := -1.0
	if u.CPUPercent != nil {
		most = *u.CPUPercent
	}
	for _, g := range u.GPUs {
		if g.Percent != nil {
			most = max(most, *g.Percent)
		}
	}
	return most
}
