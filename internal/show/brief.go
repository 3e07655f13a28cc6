package show

import (
	"fmt"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/words"
)

// SessionState is the state of a session in a few words, without its name.
func SessionState(s api.Session, now time.Time) string {
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
	if !s.MayHaveLiveJob(now) {
		if others := OtherJobs(s, now); len(others) > 0 {
			return "disconnected, " + brief(WithoutCommands(strings.TrimPrefix(others[0], "also: ")))
		}
		return words.Session(s, now)
	}
	if words.IsCharged(s, now) {
		return fmt.Sprintf("disconnected, job %s is %s", s.Job.ID, words.Charged(*s.Job, now))
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
