package action

import (
	"fmt"
	"slices"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/show"
)

// DownTexts say what became of sessions and their jobs since before.
func DownTexts(done api.DownResponse, before api.Status, now time.Time) (lines []string) {
	for _, s := range done.Sessions {
		lines = append(lines, downText(s, before, now)...)
	}
	return lines
}

func downText(s api.Session, before api.Status, now time.Time) []string {
	was, _ := before.Session(s.Name)
	wasDown, already := was.State == api.SessionDown, ""
	if wasDown {
		already = "already "
	}
	lines := []string{fmt.Sprintf("%s is %sdown%s", s.Name, already, keepsRunning(s, wasDown, now))}
	for _, j := range s.Others {
		if j.State.Ended() {
			lines = append(lines, CancelledText(j))
		}
	}
	lines = append(lines, show.EarlierJobs(s, now)...)
	if s.Next != nil {
		lines = append(lines, fmt.Sprintf("job %s, which was to follow it, stays in the queue: `%s` removes it", s.Next.ID, howToEnd(s, s.Next)))
	}
	return lines
}

// keepsRunning says that the job keeps running without its session, and how to end it. Of a
// session that was down already, it says when the job was last seen.
func keepsRunning(s api.Session, wasDown bool, now time.Time) string {
	j := s.Job
	switch {
	case j == nil:
		return ""
	case j.State == api.JobCancelled:
		return fmt.Sprintf("; job %s was cancelled", j.ID)
	case j.State.Ended():
		return ""
	case j.State == api.JobCompleting:
		return fmt.Sprintf("; job %s is about to end", j.ID)
	case wasDown && s.Cause != "":
		return fmt.Sprintf("; %s: `%s` ends it", s.Cause, howToEnd(s, j))
	case j.State.Waiting():
		return fmt.Sprintf("; job %s is still queued and will run: `%s` removes it", j.ID, howToEnd(s, j))
	}
	return fmt.Sprintf("; job %s keeps running and is charged%s: `%s` ends it", j.ID, show.Until(j, now), howToEnd(s, j))
}

// howToEnd is the command that ends the job of a session that is down. A forgotten session
// has no name any more.
func howToEnd(s api.Session, j *api.Job) string {
	if s.Forgotten {
		return fmt.Sprintf("tunctl cancel %s %s", s.Host, j.ID)
	}
	return fmt.Sprintf("tunctl down %s --cancel", s.Name)
}

// MayBeCharged reports whether a job of the session waits or runs, or may still appear. One that
// was cancelled and is about to end does not count.
func MayBeCharged(s api.Session) bool {
	return s.Pending || slices.ContainsFunc(s.LiveJobs(), func(j api.Job) bool { return j.State != api.JobCompleting })
}
