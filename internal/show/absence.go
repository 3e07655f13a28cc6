package show

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/words"
)

// Absence says in one paragraph what happened since a time: what started, what ended and why, how long
// jobs ran, which cells finished, and which logins are needed. It is empty if nothing did.
func Absence(st api.Status, runs []api.Run, since, now time.Time) string {
	var said []string
	var ran, idle time.Duration
	from := func(start, end time.Time) time.Duration {
		if start.Before(since) {
			start = since
		}
		return max(0, end.Sub(start))
	}
	for _, r := range runs {
		if r.Noted.Before(since) {
			continue
		}
		said = append(said, fmt.Sprintf("%s: %s", r.Session, cmp.Or(r.Why, EndedWithoutReason)))
		if !r.Job.Start.IsZero() {
			ran += from(r.Job.Start, r.Job.End)
		}
		idle += time.Duration(r.Idle) * time.Second
	}
	for _, s := range st.Sessions {
		if s.RunsJob() && !s.Job.Start.IsZero() {
			ran += from(s.Job.Start, now)
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
