package show

import (
	"cmp"
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
		unit := strings.Replace(string(w.Unit), "seconds", "h", 1)
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

// Absence says in one paragraph what happened since a time: what started, what ended and why, how long
// jobs ran, which cells finished, and which logins are needed. It is empty if nothing did.
func Absence(st api.Status, runs []api.Run, since, now time.Time) string {
	var said []string
	var ran, idle time.Duration
	part := func(start, end time.Time) time.Duration { return max(0, min(end.Sub(start), end.Sub(since))) }
	for _, r := range runs {
		if r.Noted.Before(since) {
			continue
		}
		said = append(said, fmt.Sprintf("%s: %s", r.Session, cmp.Or(r.Why, EndedWithoutReason)))
		if !r.Job.Start.IsZero() {
			ran += part(r.Job.Start, r.Job.End)
		}
		idle += time.Duration(r.Idle) * time.Second
	}
	for _, s := range st.Sessions {
		if s.RunsJob() && !s.Job.Start.IsZero() {
			ran += part(s.Job.Start, now)
			if s.Job.Start.After(since) {
				said = append(said, fmt.Sprintf("%s: job %s started at %s", s.Name, s.Job.ID, api.ClockText(s.Job.Start, now)))
			}
		}
		if s.Cells.Finished > 0 {
			said = append(said, s.Name+": "+words.CellCounts(s.Cells))
		}
		if s.State == api.SessionNeedsLogin {
			said = append(said, s.Name+" needs a login")
		}
	}
	if ran >= time.Minute {
		text := "jobs were charged for " + api.DurationText(ran)
		if idle = min(idle, ran); idle >= time.Minute {
			text += ", " + api.DurationText(idle) + " of it without use"
		}
		said = append(said, text)
	}
	if len(said) == 0 {
		return ""
	}
	return fmt.Sprintf("Since %s: %s.", api.ClockText(since, now), strings.Join(said, "; "))
}

// EndedWithoutReason is said of a job whose end has no other words.
const EndedWithoutReason = "its job ended"
