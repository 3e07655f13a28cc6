package watchui

import (
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/term"
)

const (
	retryAfter = 5 * time.Second // a stream that failed
	usageSpan  = time.Hour
)

// received is what the agent has sent of one stream.
type received struct {
	open    stream                 // zero: the agent sends nothing
	usage   map[string][]api.Usage // of the last hour, by session, the oldest first
	log     logTail
	ended   bool
	err     error // why it ended
	endedAt time.Time
}

// addUsage adds a sample. Copies of the model keep their lists.
func (r *received) addUsage(u api.Usage) {
	if !r.open.usage {
		return // it came late
	}
	list := r.usage[u.Session]
	old := 0
	for old < len(list) && list[old].Time.Before(u.Time.Add(-usageSpan)) {
		old++
	}
	r.usage[u.Session] = append(list[old:len(list):len(list)], u)
}

// mayRetry reports whether a stream that failed is to be opened once more. That of a job's log would
// ask a scheduler.
func (r *received) mayRetry(now time.Time) bool {
	failed := r.err != nil || r.ended && !r.open.usage && r.log.over == "" // the agent has stopped
	return failed && r.open.log.Job == "" && now.Sub(r.endedAt) >= retryAfter
}

// logLines are the lines of the log that contain the filter's text, or why there are none.
func (r *received) logLines(filter string, paint func(colour, text string) string) []string {
	lines := r.log.all(filter, paint)
	switch {
	case r.open == (stream{}):
		return []string{"", "  choose a session or a job first: 1 or 2 lists them, l shows its log"}
	case r.err != nil:
		return append(append(lines[:len(lines):len(lines)], ""), strings.Split("✗ "+api.Sanitize(errorText(r.err)), "\n")...)
	case r.log.over != "":
		return append(lines[:len(lines):len(lines)], "— "+api.Sanitize(r.log.over)+": the log is complete —")
	case len(lines) == 0 && filter != "":
		return []string{"", "  no line contains " + filter}
	case len(lines) == 0:
		return []string{"", "  no output yet"}
	}
	return lines
}

// mostLogLines are kept of a log.
const mostLogLines = 2000

// logTail is the end of a log.
type logTail struct {
	lines   []api.LogLine
	dropped int    // lines before them
	open    bool   // the last line has not ended
	over    string // how the job ended
}

// first is the number of the first line that is shown.
func (l *logTail) first() int { return l.dropped + max(0, len(l.lines)-mostLogLines) }

// add adds what the job wrote next.
func (l *logTail) add(c api.LogChunk) {
	l.over = c.Ended
	if c.Restarted {
		l.open = false
		c.Lines = append([]api.LogLine{{{Text: "— " + api.Sanitize(c.Path) + " was started again —"}}}, c.Lines...)
	}
	if len(c.Lines) == 0 {
		return
	}
	if l.open {
		l.lines = l.lines[:len(l.lines)-1]
	}
	l.lines, l.open = append(l.lines, c.Lines...), c.Open
	if len(l.lines) > 2*mostLogLines { // copied rarely, and so that the model's copies stay apart
		l.dropped += len(l.lines) - mostLogLines
		l.lines = slices.Clone(l.lines[len(l.lines)-mostLogLines:])
	}
}

// spanColours are the colours of a style's words.
var spanColours = map[string]string{"red": term.Red, "green": term.Green, "yellow": term.Yellow, "bold": term.Bold}

// all are the lines that contain the filter, painted.
func (l *logTail) all(filter string, paint func(colour, text string) string) []string {
	var found []string
	for _, line := range l.lines[max(0, len(l.lines)-mostLogLines):] {
		var plain, painted strings.Builder
		for _, span := range line {
			text, colour := strings.ReplaceAll(span.Text, "\t", "    "), ""
			for word := range strings.FieldsSeq(span.Style) {
				colour += spanColours[word]
			}
			plain.WriteString(text)
			painted.WriteString(paint(colour, text))
		}
		if contains(plain.String(), filter) {
			found = append(found, painted.String())
		}
	}
	return found
}
