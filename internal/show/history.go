package show

import (
	"fmt"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/term"
	"tunctl/internal/words"
)

// History has a row per past job.
func History(runs []api.Run) *term.Table {
	h := &term.Table{Header: []string{"SESSION", "JOB", "STARTED", "WAITED", "RAN", "NODE", "END"}, Whole: []string{"JOB", "STARTED", "END"}, Optional: []string{"NODE"}}
	for _, r := range runs {
		end := term.Cell{Text: words.Job(r.Job.State)}
		var notes []string
		if r.Job.State == api.JobFinished && r.Job.Reason == api.ReasonGone { // how is not known
			end.Text = "ended"
		}
		if r.Job.Unused() {
			notes = append(notes, r.Why)
		}
		switch r.Job.State {
		case api.JobFinished, api.JobTimeout, api.JobCancelled:
		default:
			end.Colour = term.Red
			notes = append(notes, r.Why)
		}
		h.Add(notes, term.Cell{Text: r.Session, Colour: term.Bold}, term.Cell{Text: r.Job.ID}, term.Cell{Text: startedText(r.Job.Start)},
			term.Cell{Text: spanText(r.Waited())}, term.Cell{Text: spanText(r.Ran())}, term.Cell{Text: orDash(r.Job.Node)}, end)
	}
	return h
}

// Summary has a row per week, session and host.
func Summary(weeks []api.WeekSummary) *term.Table {
	t := &term.Table{
		Header: []string{"WEEK OF", "SESSION", "HOST", "JOBS", "ASKED", "USED", "IDLE", "UNIT", "WAITED"},
		Whole:  []string{"WEEK OF", "ASKED", "USED", "IDLE", "UNIT", "WAITED"}, Optional: []string{"HOST"},
	}
	week := ""
	for _, w := range weeks {
		monday := w.Week
		if w.Week == week {
			monday = ""
		}
		week = w.Week
		unit := strings.Replace(string(w.Unit), "hours", "h", 1)
		t.Add(nil, term.Cell{Text: monday}, term.Cell{Text: w.Session, Colour: term.Bold}, term.Cell{Text: w.Host}, term.Cell{Text: fmt.Sprint(w.Jobs)},
			term.Cell{Text: hoursText(w.Asked)}, term.Cell{Text: hoursText(w.Used)}, term.Cell{Text: hoursText(w.Idle)}, term.Cell{Text: unit},
			term.Cell{Text: waitedText(time.Duration(w.Waited) * time.Second)})
	}
	return t
}

// hoursText is a number of hours, if there are any.
func hoursText(seconds int64) string {
	switch {
	case seconds == 0:
		return "-"
	case seconds < 3*60:
		return "<0.1" // 0.0 would read as none
	}
	return fmt.Sprintf("%.1f", float64(seconds)/3600)
}

// waitedText is how long jobs waited altogether.
func waitedText(d time.Duration) string {
	if d < time.Hour {
		return api.DurationText(d)
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}
