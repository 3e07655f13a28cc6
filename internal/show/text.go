// Package show writes what is known in words: tables of sessions, jobs, hosts, history and quotas,
// the progress of a session, and the texts of states, times, sizes and reasons. Every viewer uses it,
// so that the same thing has the same words everywhere. It asks nobody and does nothing: what can be
// done is in package action.
package show

import (
	"cmp"
	"fmt"
	"time"

	"tunctl/internal/api"
)

// minuteTime is a time that may be far away.
func minuteTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }

func sinceText(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return api.ClockText(t, now)
}

func startedText(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Local().Format("Mon 2 Jan 15:04")
}

// Until is the end of a running job's time limit.
func Until(j *api.Job, now time.Time) string {
	if j == nil || j.State != api.JobRunning || j.End.Before(now) {
		return ""
	}
	return " until " + api.ClockText(j.End, now)
}

func spanText(d time.Duration, known bool) string {
	if !known {
		return "-"
	}
	return api.DurationText(d)
}

// Stopwatch is how long a step has taken while the user watches: finer than other time
// spans.
func Stopwatch(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	d = d.Round(time.Second)
	if d < time.Hour {
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return api.DurationText(d)
}

// Because is a cause at the end of a sentence.
func Because(cause string) string {
	if cause == "" {
		return ""
	}
	return ": " + cause
}

// OpenCommand is the command that opens a page of a session: its main one, or another endpoint
// of its job.
func OpenCommand(program, session, endpoint string) string {
	if endpoint == "" {
		return program + " open " + session
	}
	return program + " open " + session + " --which " + endpoint
}

func orDash(text string) string { return cmp.Or(text, "-") }
