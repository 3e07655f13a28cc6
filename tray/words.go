package tray

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"tunctl/internal/api"
)

// statusLine is how things stand, in one sentence.
func statusLine(v View) string {
	switch {
	case !v.Reached:
		return "The background agent is not running"
	case len(v.Status.Sessions) == 0:
		return "Nothing is set up yet, see Help"
	}
	return sentence(foremost(v.Status.Sessions), v.Now)
}

// sentence tells of a session by name.
func sentence(s api.Session, now time.Time) string {
	switch s.State {
	case api.SessionNeedsLogin, api.SessionFailed:
		return s.Name + " " + words(s, now)
	case api.SessionEnded:
		return s.Name + " has " + words(s, now)
	}
	return s.Name + " is " + words(s, now)
}

// words tell how a session is, without its name.
func words(s api.Session, now time.Time) string {
	switch s.State {
	case api.SessionConnecting:
		return "connecting to " + s.Host
	case api.SessionNeedsLogin:
		return "needs you to log in to " + s.Host
	case api.SessionSubmitting:
		return "handing in its job"
	case api.SessionQueued:
		return "queued" + queueWords(s, now)
	case api.SessionStarting:
		if s.Job != nil && s.Job.Node != "" {
			return "starting on " + s.Job.Node
		}
		return "starting"
	case api.SessionReady:
		if s.Job != nil && s.Job.End.After(now) {
			return "ready, " + api.DurationText(s.Job.End.Sub(now)) + " left"
		}
		return "ready"
	case api.SessionReconnecting:
		return "reconnecting to " + s.Host
	case api.SessionEnded:
		return "ended" + because(s.Cause)
	case api.SessionFailed:
		return "failed" + because(s.Cause)
	}
	return "not running"
}

// queueWords say when a queued job starts, or else what it waits for.
func queueWords(s api.Session, now time.Time) string {
	switch {
	case s.Job == nil:
		return because(s.Cause)
	case !s.Job.ExpectedStart.IsZero():
		return ": expected " + clock(s.Job.ExpectedStart, now)
	case s.Job.Hint != "":
		return because(s.Job.Hint)
	}
	return because(s.Job.Reason)
}

// hostWords tell how a host is.
func hostWords(h api.Host) string {
	switch h.State {
	case api.HostConnecting:
		return "connecting"
	case api.HostNeedsLogin:
		return "needs you to log in"
	case api.HostUp:
		return "connected"
	case api.HostWaiting:
		return "waiting" + because(h.Cause)
	case api.HostBlocked:
		return "blocked" + because(h.Cause)
	}
	return "not connected"
}

// because appends a cause, if it is known.
func because(cause string) string {
	if cause == "" {
		return ""
	}
	return ": " + brief(cause)
}

// brief makes text fit a menu: one line, and not wider than a small screen.
func brief(text string) string {
	const most = 60
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

// clock is a point in time as people say it today.
func clock(t, now time.Time) string {
	t = t.In(now.Location())
	if t.Year() == now.Year() && t.YearDay() == now.YearDay() {
		return t.Format("15:04")
	}
	if t.Sub(now).Abs() < 6*24*time.Hour {
		return t.Format("Mon 15:04")
	}
	return t.Format("2 Jan 15:04")
}

// sentenceCase makes words of ours, which begin small, a sentence.
func sentenceCase(text string) string {
	r, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(r)) + text[size:]
}
