package watchui

import (
	"slices"
	"strings"

	"tunctl/internal/api"
)

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
