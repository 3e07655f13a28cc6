package watchui

import (
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
