// Package show writes what is known in words: tables of sessions, jobs, hosts, history and quotas,
// the progress of a session, and the texts of states, times, sizes and reasons. Every viewer uses it,
// so that the same thing has the same words everywhere. It asks nobody and does nothing: what can be
// done is in package action.
package show

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/words"
)

// minuteTime is a time that may be far away; "" if there is none.
func minuteTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04")
}

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
func OpenCommand(session, endpoint string) string {
	return strings.TrimSuffix("tunctl open "+session+" --which "+endpoint, " --which ")
}

func orDash(text string) string { return cmp.Or(text, "-") }

// SessionState is the state of a session in a few words, without its name.
func SessionState(s api.Session, now time.Time) string {
	if words.IsEnding(s) {
		return fmt.Sprintf("job %s is about to end", s.Job.ID)
	}
	switch s.State {
	case api.SessionConnecting:
		return "connecting to " + s.Host
	case api.SessionQueued:
		return "in the queue" + queueText(s, now)
	case api.SessionStarting:
		if s.Job != nil && s.Job.Node != "" {
			return "starting on " + s.Job.Node
		}
	case api.SessionReady:
		if s.Job != nil && s.Job.End.After(now) {
			return "ready, " + TimeLeft(s, now)
		}
	case api.SessionReconnecting:
		if !s.NotRespondingSince.IsZero() {
			return s.Host + " is not responding"
		}
		return "reconnecting to " + s.Host
	case api.SessionEnded:
		return endText("ended", s.Cause)
	case api.SessionFailed:
		return endText("failed", s.Cause)
	case api.SessionDown:
		return disconnectedText(s, now)
	}
	return words.Session(s, now)
}

// endText says why a session is over. A cause that names the job needs no state.
func endText(state, cause string) string {
	if strings.HasPrefix(cause, "job ") || strings.HasPrefix(cause, "the job ") {
		return brief(WithoutCommands(cause))
	}
	return state + BriefCause(cause)
}

// TimeLeft is how long a session's job may still run.
func TimeLeft(s api.Session, now time.Time) string {
	return api.DurationText(s.Job.End.Sub(now)) + " left"
}

// disconnectedText describes a session that is down. Its job may still run, and costs.
func disconnectedText(s api.Session, now time.Time) string {
	if j, found := words.LeftRunning(s, now); found {
		return fmt.Sprintf("disconnected, job %s is %s", j.ID, words.Charged(j, now))
	}
	if !s.MayHaveLiveJob(now) {
		if others := OtherJobs(s, now); len(others) > 0 {
			return "disconnected, " + brief(WithoutCommands(strings.TrimPrefix(others[0], "also: ")))
		}
		return words.Session(s, now)
	}
	at := ""
	if !s.Job.Seen.IsZero() {
		at = " at " + api.ClockText(s.Job.Seen, now)
	}
	return fmt.Sprintf("disconnected, job %s last seen queued%s", s.Job.ID, at)
}

// queueText says when a queued job starts, or else what it waits for.
func queueText(s api.Session, now time.Time) string {
	switch {
	case s.Job == nil:
		return BriefCause(s.Cause)
	case !s.Job.ExpectedStart.IsZero():
		return ", expected start " + api.ClockText(s.Job.ExpectedStart, now)
	case s.Job.Hint != "":
		return BriefCause(s.Job.Hint)
	}
	return BriefCause(s.Job.Reason)
}

// HostState is the state of a host in a few words. It leaves out a cause that a session already shows.
func HostState(h api.Host, shown map[string]bool) string {
	cause := h.Cause
	if shown[cause] {
		cause = ""
	}
	if h.Asking == "" && (h.State == api.HostWaiting || h.State == api.HostBlocked) {
		return words.Host(h) + BriefCause(cause)
	}
	return words.Host(h)
}

// BriefCause is [Because] for a menu: short, and without commands.
func BriefCause(cause string) string { return Because(brief(WithoutCommands(cause))) }

// WithoutCommands removes commands, and the output after the first line: a menu or a
// notification is no place to run the one or read the other. Of a clause with a
// command, the part before it stays.
func WithoutCommands(text string) string {
	text, _, output := strings.Cut(text, "\n")
	var kept []string
	for clause := range strings.SplitSeq(text, "; ") {
		if clause = beforeCommand(clause); clause != "" {
			kept = append(kept, clause)
		}
	}
	if n := len(kept); output && n > 0 && strings.HasSuffix(kept[n-1], ":") {
		kept = kept[:n-1] // it introduced the output
	}
	return strings.Join(kept, "; ")
}

// beforeCommand is the part of a clause before its command.
func beforeCommand(clause string) string {
	at := strings.IndexByte(clause, '`')
	if named := strings.Index(clause, "tunctl "); named >= 0 && (at < 0 || named < at) {
		at = named
	}
	if at < 0 {
		return clause
	}
	before := clause[:at]
	return before[:max(strings.LastIndex(before, ": "), strings.LastIndex(before, ", "), 0)]
}

// brief makes a text fit a menu: one line that is not wider than a small screen.
func brief(text string) string { return Shorten(text, 60) }

// Shorten makes a text one line of at most so many characters, cut between words.
func Shorten(text string, most int) string {
	text = strings.Join(strings.Fields(text), " ")
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	cut := runes[:most-1]
	for i := most - 1; i > most/2; i-- {
		if runes[i] == ' ' { // between words, if there are any
			cut = runes[:i]
			break
		}
	}
	return strings.TrimRight(string(cut), " ,;:") + "…"
}
