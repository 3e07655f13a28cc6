package watchui

import (
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
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
	return r.err != nil && r.open.log.Job == "" && now.Sub(r.endedAt) >= retryAfter
}

// logLines are the lines of the log that contain the filter's text, or why there are none.
func (r *received) logLines(filter string) []string {
	lines := r.log.all(filter)
	switch {
	case r.open == (stream{}):
		return []string{"", "  choose a session or a job first: 1 or 2 lists them, l shows its log"}
	case r.err != nil:
		return append(append(lines[:len(lines):len(lines)], ""), strings.Split("✗ "+api.Sanitize(errorText(r.err)), "\n")...)
	case r.ended:
		return append(lines[:len(lines):len(lines)], "— the end of the log —")
	case len(lines) == 0 && filter != "":
		return []string{"", "  no line contains " + filter}
	case len(lines) == 0:
		return []string{"", "  no output yet"}
	}
	return lines
}

const (
	mostLogLines = 2000     // of a log are kept
	longestLine  = 16 << 10 // bytes; a longer one is broken
)

// logTail is the end of a log, as lines that are safe to show.
type logTail struct {
	lines   []string
	dropped int    // lines before them
	rest    string // the last line so far, as the job wrote it
}

// first is the number of the first line that is shown.
func (l *logTail) first() int { return l.dropped + max(0, len(l.lines)-mostLogLines) }

// add adds what the job wrote next. Whole lines are sanitized, since an escape sequence may
// be split over two chunks.
func (l *logTail) add(c api.LogChunk) {
	if c.Restarted {
		l.append("— " + api.Sanitize(c.Path) + " was started again —")
		l.rest = ""
	}
	text := l.rest + string(c.Bytes())
	for {
		line, rest, whole := strings.Cut(text, "\n")
		if !whole {
			break
		}
		l.append(shownLine(line))
		text = rest
	}
	for len(text) > longestLine {
		l.append(shownLine(text[:longestLine]))
		text = text[longestLine:]
	}
	l.rest = text
}

func (l *logTail) append(line string) {
	l.lines = append(l.lines, line)
	if len(l.lines) > 2*mostLogLines { // copied rarely, and so that the model's copies stay apart
		l.dropped += len(l.lines) - mostLogLines
		l.lines = slices.Clone(l.lines[len(l.lines)-mostLogLines:])
	}
}

// all are the lines with the unfinished last one, those that contain the filter.
func (l *logTail) all(filter string) []string {
	lines := l.lines[max(0, len(l.lines)-mostLogLines):]
	if l.rest != "" {
		lines = append(lines[:len(lines):len(lines)], shownLine(l.rest))
	}
	if filter == "" {
		return lines
	}
	var found []string
	for _, line := range lines {
		if contains(line, filter) {
			found = append(found, line)
		}
	}
	return found
}

// shownLine is what a terminal would show of a line, without what it would obey: of a
// progress bar, the text after the last carriage return.
func shownLine(line string) string {
	line = strings.TrimRight(line, "\r")
	line = line[strings.LastIndexByte(line, '\r')+1:]
	line = strings.ReplaceAll(api.Sanitize(line), "\t", "    ")
	return strings.ReplaceAll(line, "\n", " ")
}
