// Package words is the vocabulary that the agent and every viewer share: the short words for states, sizes,
// numbers and interruptions, and what makes a text a sentence. Times of day are written by [api.ClockText],
// time spans by [api.DurationText].
package words

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"tunctl/internal/api"
)

// Session is the state of a session. One that may submit nothing only looks for its job, and a job of one
// that is down may still run.
func Session(s api.Session, now time.Time) string {
	switch {
	case IsEnding(s):
		return "ending"
	case s.State == api.SessionDown && (s.MayHaveLiveJob(now) || s.Pending || slices.ContainsFunc(s.Others, func(j api.Job) bool { return !j.State.Ended() })):
		return "disconnected"
	case s.State == api.SessionNeedsLogin:
		return "login needed"
	case s.State == api.SessionSubmitting && !s.MaySubmit:
		return "finding job"
	}
	return string(s.State)
}

// IsEnding reports whether the job of a session is about to end.
func IsEnding(s api.Session) bool {
	return s.Job != nil && s.Job.State == api.JobCompleting && (s.State == api.SessionDown || !s.State.Settled())
}

// Charged says until when a running job is charged.
func Charged(j api.Job, now time.Time) string {
	if j.End.After(now) {
		return "charged until " + api.ClockText(j.End, now) + " at most"
	}
	return "charged while it runs"
}

// IsCharged reports whether a session is down while a job of it runs, as far as is known. Every viewer asks it: such
// a session is violet.
func IsCharged(s api.Session, now time.Time) bool {
	_, found := LeftRunning(s, now)
	return found
}

// LeftRunning is the job that runs although its session is down.
func LeftRunning(s api.Session, now time.Time) (j api.Job, found bool) {
	if !s.MayHaveLiveJob(now) {
		s.Job = nil
	}
	running := slices.DeleteFunc(s.LiveJobs(), func(j api.Job) bool { return j.State.Waiting() || j.State == api.JobCompleting })
	if s.State != api.SessionDown || len(running) == 0 {
		return j, false
	}
	return running[0], true
}

// Host is the state of a host. One that does not respond is not said to be connected.
func Host(h api.Host) string {
	switch {
	case h.Asking != "":
		return "waiting for your answer"
	case h.IsStalled():
		return "not responding"
	case h.State == api.HostDown, h.State == "":
		return "not connected"
	case h.State == api.HostNeedsLogin:
		return "login needed"
	case h.State == api.HostUp:
		return "connected"
	}
	return string(h.State)
}

// Jobs are the states of jobs whose own names are no words.
var Jobs = map[api.JobState]string{
	api.JobConfiguring: "preparing", api.JobCompleting: "ending", api.JobUnknown: "not known",
	api.JobTimeout: "time limit", api.JobOOM: "out of memory", api.JobNodeFail: "node failed", api.JobNeverRan: "never ran",
}

// Job is the state of a job.
func Job(state api.JobState) string { return cmp.Or(Jobs[state], string(state)) }

// heldFor is how long the end of an interruption is worth a line.
const heldFor = time.Hour

// Inside says what waits inside the job of a session, or how that ended, and what became of its cells.
func Inside(s api.Session, now time.Time) []string {
	lines := Held(s.Held, now)
	if text := Cells(s.Name, s.Cells); text != "" {
		lines = append(lines, text)
	}
	return lines
}

// Cells says what became of the cells of a session whose page is closed, and where their output is; "": there are none.
func Cells(session string, c api.Cells) string {
	text := CellCounts(c)
	if text != "" {
		text += ": `tunctl output " + session + "`"
		if c.Trouble != "" {
			text += "; it cannot be saved in ~/.tunctl/output on the cluster: " + c.Trouble
		}
	}
	return text
}

// CellCounts says what became of cells whose page is closed; "": there are none.
func CellCounts(c api.Cells) string {
	var parts []string
	if c.Finished > 0 {
		parts = append(parts, Count(c.Finished, "cell")+" finished while the page was closed")
	}
	if running := c.Running - c.Waiting; running > 0 {
		parts = append(parts, Count(running, "cell")+" running without the page")
	}
	if c.Waiting > 0 {
		parts = append(parts, Count(c.Waiting, "cell")+" waiting for input, and the page is closed")
	}
	return strings.Join(parts, ", ")
}

// Held says what waits inside a job for a connection, or how that ended, and what was lost before that.
func Held(h *api.Held, now time.Time) (lines []string) {
	for ; h != nil; h = h.Earlier {
		if !h.IsOver() {
			lines = append(lines, heldText(h))
		} else if over := HeldOver(*h); over != "" && now.Sub(h.Until) < heldFor {
			lines = append(lines, over)
		}
	}
	return lines
}

func heldText(h *api.Held) string {
	text := fmt.Sprintf("held: %s, %s waiting", Count(h.Streams, "stream"), Bytes(int64(h.Waiting)))
	if h.Full {
		text += "; this buffer is full, so programs that send more wait"
	}
	return text
}

// HeldOver says how an interruption ended; "": it has not.
func HeldOver(h api.Held) string {
	lasted := h.Until.Sub(h.Since).Round(time.Second)
	after := api.DurationText(lasted)
	switch {
	case h.Until.IsZero():
		return ""
	case h.Lost > 0 && lasted == 0:
		return fmt.Sprintf("%s inside the job ended: %s", Count(h.Lost, "stream"), h.Cause)
	case h.Lost > 0:
		return fmt.Sprintf("%s inside the job ended after %s without a connection: %s", Count(h.Lost, "stream"), after, h.Cause)
	case h.Paused > 0:
		return fmt.Sprintf("continued after %s; nothing was lost; %s waited on a full output buffer", after, Count(h.Paused, "program"))
	}
	return fmt.Sprintf("continued after %s; nothing was lost", after)
}

// Bytes is a size.
func Bytes(n int64) string {
	value, units := float64(n), []string{"B", "kB", "MB", "GB", "TB"}
	i := 0
	for value >= 999.5 && i < len(units)-1 {
		value, i = value/1000, i+1
	}
	if value < 10 && i > 0 {
		return fmt.Sprintf("%.1f %s", value, units[i])
	}
	return fmt.Sprintf("%.0f %s", value, units[i])
}

// Count is a number of things: "1 host", "2 hosts".
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Capital makes the first letter of a text a capital, unless the first word is one of these names.
func Capital(text string, names ...string) string {
	word, _, _ := strings.Cut(text, " ")
	r, size := utf8.DecodeRuneInString(text)
	if size == 0 || slices.Contains(names, word) {
		return text
	}
	return string(unicode.ToUpper(r)) + text[size:]
}

// Sentence makes the first line of a text a sentence; what follows is a program's output. A name at its
// beginning stays in lower case.
func Sentence(text string, names ...string) string {
	first, output, more := strings.Cut(text, "\n")
	if first == "" {
		return text
	}
	first = Capital(first, names...)
	if end, _ := utf8.DecodeLastRuneInString(first); !strings.ContainsRune(".:?!…", end) {
		first += "."
	}
	if more {
		return first + "\n" + output
	}
	return first
}
